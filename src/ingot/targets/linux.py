"""What the Linux kernel asks of code that is linked into it: flags of the compiler, and limits.

Read by `audit/policy.py`, which judges objects, and by packages and views, which make them.
"""

from __future__ import annotations

from .record import Target

FRAME_BYTES = 512  # of the kernel stack, for each function
STACK_ALIGN = 8  # what the incoming stack is a multiple of, whatever the ABI says
THUNKS = ("__x86_return_thunk", "__x86_indirect_thunk_*")
_PREBUILT = {
    "x86_64": (
        "-mcmodel=kernel",
        "-mno-red-zone",
        "-fno-pic",
        "-fcf-protection=none",
        "-mstack-alignment=8",
        "-mretpoline-external-thunk",
        "-mfunction-return=thunk-extern",
        "-mharden-sls=all",
    ),
    # Kernels with a shadow stack keep it in x18; those with BTI ask for marks where calls arrive.
    "aarch64": ("-fno-pic", "-ffixed-x18", "-mbranch-protection=standard"),
}
RESOLVED = {
    "x86-64": r"R_X86_64_(NONE|64|32S?|PC32|PLT32|PC64)",
    "aarch64": r"R_AARCH64_(NONE|(ABS|PREL)(16|32|64)|MOVW_(UABS|SABS|PREL)_G\d(_NC)?|LD_PREL_LO19|"
    r"ADR_PREL_LO21|ADR_PREL_PG_HI21(_NC)?|ADD_ABS_LO12_NC|LDST(8|16|32|64|128)_ABS_LO12_NC|TSTBR14|"
    r"CONDBR19|JUMP26|CALL26)",
}
"""The relocations that Linux resolves when it loads a module, by the name that audits give the processor."""


def prebuilt_flags(target: Target) -> tuple[str, ...]:
    """Flags of clang for objects that are linked into a kernel."""
    return (*_PREBUILT[target.triple.split("-")[0]], f"-Wframe-larger-than={FRAME_BYTES}")
