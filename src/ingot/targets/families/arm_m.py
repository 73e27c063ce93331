"""Arm's microcontrollers, Cortex-M. They have no Linux: programs run on emulated boards, or where the code is
a subset of what Linux on Armv7-A runs, there.
"""

from __future__ import annotations

from ..fixed_sums import SCALARS as FIXED_SCALARS
from ..fixed_sums import VECTORS as FIXED_VECTORS
from ..map_routines import map_routines
from ..mve_maps import VECTORS
from ..mve_products import long_routines
from ..mve_windows import quad_routines
from ..plain_pairs import PLAIN_PAIRS
from ..point_routines import point_routines
from ..record import Target
from ..routines import dot2_routines
from ..spelling import DSP, MVE, fma_scalar, fpv5_rounding, vfp_nearest
from ..thumb_routines import thumb_routines
from ..userland import AN385, AN500, AN505, AN547
from ..vfp_maps import SCALARS
from ..window_routines import fixed_windows, window_routines

SHORT_ENUMS = "-fshort-enums"
"""Enumerations as arm-none-eabi-gcc has them: its linker warns of an object that notes others."""
SMALL_LOOPS = ("-mllvm", "-unroll-threshold=48", "-mllvm", "-unroll-partial-threshold=60")
"""Loops are unrolled as long as their code stays small: where all kernels are C, that is most of it."""
ROUTINES = {
    **PLAIN_PAIRS,
    **dot2_routines(),
    **point_routines(),
    **window_routines(),
    **map_routines(SCALARS),
    **FIXED_SCALARS,
}
VECTOR_ROUTINES = {
    **ROUTINES,
    **long_routines(),
    **quad_routines(),
    **map_routines(VECTORS),
    **FIXED_VECTORS,
}


def emulated(board: str) -> tuple[str, ...]:
    """The command that runs a program on a board; its debugger reads and writes for it."""
    quiet = ("-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on")
    return ("qemu-system-arm", "-M", board, *quiet, "-kernel")


TARGETS = (
    Target(
        "cortex-m0",
        "Cortex-M0, M0+ and M1: floats by the compiler's library",
        triple="thumbv6m-none-eabi",
        aliases=(
            *(
                "cortex-m0+",
                "cortex-m0plus",
                "cortex-m1",
                "armv6-m",
                "rp2040",
                "raspberry-pi-pico",
                "pico",
                "stm32c0",
                "stm32u0",
            ),
            *("stm32f0", "stm32g0", "stm32l0", "nrf51", "nrf51822", "microbit", "samd21", "arduino-zero"),
        ),
        flags=("-mcpu=cortex-m0", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m0"),
        pointer_bytes=4,
        has_floats=False,
        registers=8,
        runtime=("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0"),
        runner=emulated("mps2-an385"),
        board=AN385,
        shares=True,
        routines={**thumb_routines(), **fixed_windows()},
    ),
    Target(
        "cortex-m3",
        "Cortex-M3: floats by the compiler's library",
        triple="thumbv7m-none-eabi",
        aliases=(
            "armv7-m",
            "stm32f1",
            "stm32f103",
            "stm32f2",
            "stm32l1",
            "lpc1768",
            "cc2640",
            "arduino-due",
            "bluepill",
        ),
        flags=("-mcpu=cortex-m3", SHORT_ENUMS, *SMALL_LOOPS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m3"),
        pointer_bytes=4,
        has_floats=False,
        registers=8,
        runtime=("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m3"),
        runner=emulated("mps2-an385"),
        board=AN385,
        routines=fixed_windows(),
    ),
    Target(
        "cortex-m4-nofp",
        "Cortex-M4 without FPU, or with the FPU unused: floats by the compiler's library",
        triple="thumbv7em-none-eabi",
        aliases=("cortex-m4+nofp", "nrf52810", "nrf52811", "stm32wl"),
        flags=("-mcpu=cortex-m4", "-mfloat-abi=soft", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=soft"),
        pointer_bytes=4,
        has_floats=False,
        registers=8,
        runtime=("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m4"),
        runner=emulated("mps2-an386"),
        board=AN385,
        narrow_operations={4: DSP},
    ),
    Target(
        "armv7e-m",
        "Cortex-M4 with single-precision FPU, hard-float calls",
        triple="thumbv7em-none-eabihf",
        aliases=(
            "cortex-m4",
            "cortex-m4f",
            "stm32f3",
            "stm32f4",
            "stm32g4",
            "stm32l4",
            "stm32wb",
            "nrf52",
            "nrf52832",
            "nrf52840",
            "samd51",
            "k64f",
            "tm4c123",
            "apollo3",
            "arduino-nano-33-ble",
            "ra4m1",
            "arduino-uno-r4",
            "max78000",
            "psoc6",
        ),
        flags=("-mcpu=cortex-m4", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4"),
        runner=emulated("mps2-an386"),
        board=AN385,
        narrow_operations={4: DSP},
        routines=ROUTINES,
        scalar_operations={**fma_scalar(("vsqrt.f32 %0, %1", "t")), **vfp_nearest("vcvtr.s32.f32")},
    ),
    Target(
        "cortex-m7",
        "Cortex-M7 with double-precision FPU, hard-float calls",
        triple="thumbv7em-none-eabihf",
        aliases=("stm32h7", "stm32h743", "stm32f767", "imxrt1060", "imxrt1062", "teensy4", "portenta-h7"),
        flags=("-mcpu=cortex-m7", "-mfpu=fpv5-d16", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7"),
        runner=emulated("mps2-an500"),
        board=AN500,
        narrow_operations={4: DSP},
        routines=ROUTINES,
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t"), ("vsqrt.f64 %P0, %P1", "w")),
            **fpv5_rounding("float32", "float64"),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
    Target(
        "cortex-m7-sp",
        "Cortex-M7 with single-precision FPU, hard-float calls",
        triple="thumbv7em-none-eabihf",
        aliases=("stm32f7", "stm32f746", "samv71", "same70"),
        flags=("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7-fp64"),
        runner=emulated("mps2-an500"),
        board=AN500,
        narrow_operations={4: DSP},
        routines=ROUTINES,
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t")),
            **fpv5_rounding("float32"),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
    Target(
        "cortex-m23",
        "Cortex-M23: floats by the compiler's library",
        triple="thumbv8m.base-none-eabi",
        aliases=("armv8-m.base", "saml10", "saml11", "gd32e23x", "ra2"),
        flags=("-mcpu=cortex-m23", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m23"),
        pointer_bytes=4,
        has_floats=False,
        registers=8,
        runtime=("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m23"),
        runner=emulated("mps2-an505"),
        board=AN505,
        shares=True,
        routines={**thumb_routines(), **fixed_windows()},
    ),
    Target(
        "cortex-m33",
        "Cortex-M33 with DSP and single-precision FPU, hard-float calls",
        triple="thumbv8m.main-none-eabihf",
        aliases=(
            *(
                "armv8-m.main",
                "stm32l5",
                "stm32u5",
                "stm32h5",
                "nrf5340",
                "nrf91",
                "stm32wba",
                "nrf9160",
                "rp2350",
                "pico2",
            ),
            *("raspberry-pi-pico-2", "lpc55s69", "efr32mg24"),
        ),
        flags=("-mcpu=cortex-m33", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m33", "-mfloat-abi=hard"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m33"),
        runner=emulated("mps2-an505"),
        board=AN505,
        narrow_operations={4: DSP},
        routines=ROUTINES,
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t")),
            **fpv5_rounding("float32"),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
    Target(
        "cortex-m33-nofp",
        "Cortex-M33 with DSP, without FPU, or with the FPU unused: floats by the compiler's library",
        triple="thumbv8m.main-none-eabi",
        aliases=("cortex-m33+nofp", "nrf5340-net", "lpc55s04"),
        flags=("-mcpu=cortex-m33+nofp", "-mfloat-abi=soft", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m33+nofp", "-mfloat-abi=soft"),
        pointer_bytes=4,
        has_floats=False,
        registers=8,
        runtime=("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m3"),
        runner=emulated("mps2-an505"),
        board=AN505,
        narrow_operations={4: DSP},
    ),
    Target(
        "armv8.1m",
        "Cortex-M55 with Helium for integers and floats, of which C takes bytes only; hard-float calls",
        triple="thumbv8.1m.main-none-eabihf",
        aliases=("cortex-m55", "armv8.1-m", "stm32n6", "alif-e7", "corstone-300"),
        flags=("-mcpu=cortex-m55+nomve.fp", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m55+nomve.fp", "-mfloat-abi=hard"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55"),
        runner=emulated("mps3-an547"),
        board=AN547,
        header="#include <arm_mve.h>\n",
        narrow_operations={4: DSP, 16: MVE},
        routines=VECTOR_ROUTINES,
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t"), ("vsqrt.f64 %P0, %P1", "w")),
            **fpv5_rounding("float32", "float64"),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
    Target(
        "cortex-m85",
        "Cortex-M85 with Helium for integers and floats, of which C takes bytes only; hard-float calls",
        triple="thumbv8.1m.main-none-eabihf",
        aliases=("ra8m1", "ra8d1", "ra8e1"),
        flags=("-mcpu=cortex-m85+nomve.fp", SHORT_ENUMS),
        gcc=("arm-none-eabi-gcc", "-mthumb", "-march=armv8.1-m.main+mve+fp.dp", "-mfloat-abi=hard"),
        pointer_bytes=4,
        registers=32,
        runtime=("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m85"),
        runner=emulated("mps3-an547"),
        board=AN547,
        header="#include <arm_mve.h>\n",
        narrow_operations={4: DSP, 16: MVE},
        routines=VECTOR_ROUTINES,
        scalar_operations={
            **fma_scalar(("vsqrt.f32 %0, %1", "t"), ("vsqrt.f64 %P0, %P1", "w")),
            **fpv5_rounding("float32", "float64"),
            **vfp_nearest("vcvtn.s32.f32"),
        },
    ),
)
