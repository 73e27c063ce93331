"""Small models that choose boxes. `python -m tests.tflite.boxes` prints litert's answers, for the test."""

from __future__ import annotations

import numpy as np
from flatbuffers import flexbuffers

from tests.tflite.writer import Array, Op, T, model

BOXES = np.float32(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
)
SCORES = np.float32([0.9, 0.75, 0.6, 0.95, 0.5, 0.3])
ANCHORS = np.float32([[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.4, 2.0, 0.5, 1], [1.5, 3.0, 1, 0.5]])
ENCODED = np.float32([[[0.1, 0.2, 0.3, -0.1], [0.5, -0.5, 0.2, 0], [0, 0.1, 0, 0.4], [-0.2, 0.3, 0.1, 0.1]]])
BY_CLASS = np.float32([[[0, 0.9, 0.2, 0.4], [0.1, 0.8, 0.7, 0.1], [0.2, 0.3, 0.6, 0.5], [0, 0.1, 0.2, 0.8]]])
OPTIONS = {
    "max_detections": 5,
    "max_classes_per_detection": 2,
    "detections_per_class": 3,
    "nms_iou_threshold": 0.5,
    "nms_score_threshold": 0.3,
    "num_classes": 3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def suppression(version: int, most: int = 5, least: float = 0.5) -> bytes:
    """NON_MAX_SUPPRESSION_V4 or V5."""
    limits = [
        T("INT32", (), data=np.int32(most)),
        *(T("FLOAT32", (), data=np.float32(v)) for v in (0.5, least)),
    ]
    given = [T("FLOAT32", (6, 4)), T("FLOAT32", (6,)), *limits]
    given += [T("FLOAT32", (), data=np.float32(0))] if version == 5 else []
    scores = [T("FLOAT32", (most,))] if version == 5 else []
    made = [T("INT32", (most,)), *scores, T("INT32", ())]
    ins, outs = list(range(len(given))), list(range(len(given), len(given) + len(made)))
    options = f"NonMaxSuppressionV{version}Options"
    operator = Op(f"NON_MAX_SUPPRESSION_V{version}", ins, outs, options)
    return model([*given, *made], [operator], [0, 1], outs)


def detection(regular: bool, **more: float) -> bytes:
    """TFLite_Detection_PostProcess, after which nothing is declared of shapes."""
    tensors = [T("FLOAT32", (1, 4, 4)), T("FLOAT32", (1, 4, 4)), T("FLOAT32", (4, 4), data=ANCHORS)]
    options = bytes(flexbuffers.Dumps({**OPTIONS, "use_regular_nms": regular, **more}))
    operator = Op("TFLite_Detection_PostProcess", [0, 1, 2], [3, 4, 5, 6], custom=options)
    return model([*tensors, *(T("FLOAT32", ()) for _ in range(4))], [operator], [0, 1], [3, 4, 5, 6])


CASES: dict[str, tuple[bytes, list[Array]]] = {
    "V4": (suppression(4), [BOXES, SCORES]),
    "V4 at the limit": (suppression(4, least=float(SCORES[0])), [BOXES, SCORES]),
    "V5": (suppression(5, most=2), [BOXES, SCORES]),
    "by class": (detection(True), [ENCODED, BY_CLASS]),
    "by class at the limit": (
        detection(True, nms_score_threshold=float(BY_CLASS[0, 2, 3])),
        [ENCODED, BY_CLASS],
    ),
    "by class, few": (detection(True, max_detections=2), [ENCODED, BY_CLASS]),
    "by box": (detection(False), [ENCODED, BY_CLASS]),
}


def main() -> None:
    from ai_edge_litert.interpreter import Interpreter

    for name, (data, given) in CASES.items():
        interpreter = Interpreter(model_content=data)
        interpreter.allocate_tensors()
        for d, x in zip(interpreter.get_input_details(), given, strict=True):
            interpreter.set_tensor(d["index"], x)
        interpreter.invoke()
        found = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
        is_decoded = len(found) == 4
        real = int(found[-1].flat[0]) * (OPTIONS["max_classes_per_detection"] if name == "by box" else 1)
        shown = [a[:, :real] for a in found[:3]] if is_decoded else found  # what is behind is not written
        print(f"{name!r}: {[a.shape for a in found]}, {[a.tolist() for a in shown]}")


if __name__ == "__main__":
    main()
