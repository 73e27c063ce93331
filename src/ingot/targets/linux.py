"""What the Linux kernel asks of code that is linked into it: flags of the compiler, and limits.

Read by `audit/policy.py`, which judges objects, and by packages and views, which make them.
"""

from __future__ import annotations

FRAME_BYTES = 512  # of the kernel stack, for each function
STACK_ALIGN = 8  # what the incoming stack is a multiple of, whatever the ABI says
THUNKS = ("__x86_return_thunk", "__x86_indirect_thunk_*")
PREBUILT = (
    "-mcmodel=kernel",
    "-mno-red-zone",
    "-fno-pic",
    "-fcf-protection=none",
    "-mstack-alignment=8",
    "-mretpoline-external-thunk",
    "-mfunction-return=thunk-extern",
    "-mharden-sls=all",
    f"-Wframe-larger-than={FRAME_BYTES}",
)
