"""Ingot in onnx's own test runner: `python -m pytest tests/conformance/standard.py`.

Not part of `make test` (all cases take many minutes); `-k` picks some. Outputs are what `runner` judges too.
"""

from __future__ import annotations

import onnx.backend.test

from ingot.onnx_backend import IngotBackend

backend_test = onnx.backend.test.BackendTest(IngotBackend, __name__)
globals().update(backend_test.test_cases)
