"""Each calling convention, exercised by a C program as its users write one, which runs the bundle twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.binary.objects import defined_symbols, undefined_symbols, writable_bytes

from .build import COMPILERS, STRICT, compile_c, link, need, run, write
from .models import Array, bundle, image, recurrent_runs, scores

APIS = ("direct", "static", "dynamic", "argument")

DIRECT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(NET_ARENA_ALIGN)));

int main(void) {
    float image[NET_IMAGE_COUNT], scores[NET_SCORES_COUNT];
    for (int i = 0; i < (int)NET_IMAGE_COUNT; i++) image[i] = (float)(i % 7) / 4 - 0.5f;
    for (int run = 0; run < 2; run++) {
        memset(arena, 0xFF, sizeof arena);
        if (net(image, scores, arena) != NET_OK) return 1;
        for (int i = 0; i < (int)NET_SCORES_COUNT; i++) printf("%.9g\\n", scores[i]);
    }
    return 0;
}
"""
EXTERNAL = """
#include <stdio.h>
#include <string.h>
#include "net.h"

static unsigned char weights[NET_WEIGHTS_SIZE] __attribute__((aligned(NET_WEIGHTS_ALIGN)));
static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(NET_ARENA_ALIGN)));

int main(void) {
    float image[NET_IMAGE_COUNT], scores[NET_SCORES_COUNT];
    FILE *const file = fopen("net.weights.bin", "rb");
    if (!file || fread(weights, 1, sizeof weights, file) != sizeof weights || getc(file) != EOF) return 1;
    fclose(file);
    for (int i = 0; i < (int)NET_IMAGE_COUNT; i++) image[i] = (float)(i % 7) / 4 - 0.5f;
    for (int run = 0; run < 2; run++) {
        memset(arena, 0xFF, sizeof arena);
        if (net(weights, image, scores, arena) != NET_OK) return 2;
        for (int i = 0; i < (int)NET_SCORES_COUNT; i++) printf("%.9g\\n", scores[i]);
    }
    if (net(NULL, image, scores, arena) != NET_ERR_NULL) return 3;
    if (net(weights + 4, image, scores, arena) != NET_ERR_ALIGN) return 4;
    weights[0] ^= 1;
    if (net(weights, image, scores, arena) != NET_ERR_WEIGHTS) return 5;
    memset(weights, 0, sizeof weights);
    return net(weights, image, scores, arena) == NET_ERR_WEIGHTS ? 0 : 6;
}
"""
STATIC = """
#include <stdio.h>
#include <string.h>
#include "net.h"

GLOW_MEM_ALIGN(NET_MEM_ALIGN)
uint8_t constantWeight[NET_CONSTANT_MEM_SIZE] = {
#include "net.weights.txt"
};

GLOW_MEM_ALIGN(NET_MEM_ALIGN)
uint8_t mutableWeight[NET_MUTABLE_MEM_SIZE];

GLOW_MEM_ALIGN(NET_MEM_ALIGN)
uint8_t activations[NET_ACTIVATIONS_MEM_SIZE];

int main(void) {
    uint8_t *inputAddr = GLOW_GET_ADDR(mutableWeight, NET_image);
    uint8_t *outputAddr = GLOW_GET_ADDR(mutableWeight, NET_scores);
    float scores[5];
    for (int run = 0; run < 2; run++) {
        memset(activations, 0xFF, sizeof activations);
        for (int i = 0; i < 36; i++) {
            const float value = (float)(i % 7) / 4 - 0.5f;
            memcpy(inputAddr + 4 * i, &value, 4);
        }
        if (net(constantWeight, mutableWeight, activations) != GLOW_SUCCESS) return 1;
        memcpy(scores, outputAddr, sizeof scores);
        for (int i = 0; i < 5; i++) printf("%.9g\\n", scores[i]);
    }
    if (net(0, mutableWeight, activations) != NET_ERR_NULL) return 2;
    if (net(constantWeight, 0, activations) != NET_ERR_NULL) return 3;
    if (net(constantWeight, mutableWeight + 4, activations) != NET_ERR_ALIGN) return 4;
    constantWeight[0] ^= 1;
    return net(constantWeight, mutableWeight, activations) == NET_ERR_WEIGHTS ? 0 : 5;
}
"""
DYNAMIC = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"
#include "other.h"

static uint8_t *alignedAlloc(const BundleConfig *config, uint64_t size, void **owner) {
    uint8_t *ptr = *owner = malloc((size_t)(size + config->alignment));
    memset(ptr, 0xFF, (size_t)(size + config->alignment));
    return ptr + (config->alignment - (uintptr_t)ptr % config->alignment);
}

static uint8_t *initConstantWeights(const char *name, const BundleConfig *config, void **owner) {
    uint8_t *base = alignedAlloc(config, config->constantWeightVarsMemSize, owner);
    FILE *file = fopen(name, "rb");
    if (!file || fread(base, 1, (size_t)config->constantWeightVarsMemSize, file) == 0) exit(1);
    fclose(file);
    return base;
}

static const SymbolTableEntry *getMutableSymbol(const BundleConfig *config, const char *name) {
    for (unsigned i = 0; i < config->numSymbols; ++i)
        if (config->symbolTable[i].kind == 1 && strcmp(config->symbolTable[i].name, name) == 0)
            return &config->symbolTable[i];
    exit(2);
}

int main(void) {
    BundleConfig *config = &net_config;
    void *owners[3];
    uint8_t *constantWeight = initConstantWeights("net.weights.bin", config, &owners[0]);
    uint8_t *mutableWeight = alignedAlloc(config, config->mutableWeightVarsMemSize, &owners[1]);
    uint8_t *activations = alignedAlloc(config, config->activationsMemSize, &owners[2]);
    const SymbolTableEntry *in = getMutableSymbol(config, "image"), *out = getMutableSymbol(config, "scores");
    float scores[5];
    if (in->size != 36 || out->size != 5 || other_config.alignment != 64) return 3;
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 36; i++) {
            const float value = (float)(i % 7) / 4 - 0.5f;
            memcpy(mutableWeight + in->offset + 4 * i, &value, 4);
        }
        if (net(constantWeight, mutableWeight, activations) != GLOW_SUCCESS) return 4;
        memcpy(scores, mutableWeight + out->offset, sizeof scores);
        for (int i = 0; i < 5; i++) printf("%.9g\\n", scores[i]);
    }
    for (int i = 0; i < 3; i++) free(owners[i]);
    return 0;
}
"""
ARGUMENT = """
#include <stdio.h>
#include <string.h>
#include "policy.h"

int main(void) {
    float *data_in, *state_in, *data_out, *state_out;
    for (int session = 0; session < 2; session++) {
        if (!policy_constructor()) return 1;
        data_in = policy_get_address_for_argument(0);
        state_in = policy_get_address_for_argument(1);
        for (int i = 0; i < 9; i++) data_in[i] = 0.1f * (float)i;
        for (int iter = 0; iter < 10; iter++) {
            policy_run();
            data_out = policy_get_address_for_result(0);
            state_out = policy_get_address_for_result(1);
            for (int i = 0; i < 5; i++) printf("%.9g\\n", data_out[i]);
            memcpy(state_in, state_out, 32 * sizeof(float));
        }
        policy_destructor();
    }
    return policy_get_address_for_argument(2) || policy_get_address_for_result(-1);
}
"""


def numbers(text: str) -> Array:
    return np.array(text.split(), np.float32)


def sources(made: ingot.Bundle) -> list[str]:
    return [n for n in made.files if n.endswith((".c", ".S"))]


def build(folder: Path, kind: str, program: str, *bundles: ingot.Bundle) -> str:
    """The program and the bundles' C, all compiled strictly as C99 by one compiler."""
    need("gcc")
    for made in bundles:
        write(folder, made.files)
    write(folder, {"program.c": program})
    names = ["program.c", *(n for made in bundles for n in sources(made))]
    flags = ("-std=c99", *STRICT, "-O2", "-march=native")
    return link(folder, [compile_c(kind, folder, n, *flags) for n in names])


@pytest.mark.parametrize("kind", COMPILERS)
@pytest.mark.parametrize("convention", ["direct", "external", "static", "dynamic"])
def test_program(convention: str, kind: str, tmp_path: Path) -> None:
    program = {"direct": DIRECT, "external": EXTERNAL, "static": STATIC, "dynamic": DYNAMIC}[convention]
    options = {"weights": "external"} if convention == "external" else {"api": convention}
    bundles = [bundle(**options)]
    if convention == "dynamic":
        bundles.append(bundle("other", of="recurrent", **options))
    found = numbers(run([build(tmp_path, kind, program, *bundles)], tmp_path))
    np.testing.assert_allclose(found, np.tile(scores()[0], 2), atol=1e-6)


@pytest.mark.parametrize("kind", COMPILERS)
def test_argument_program(kind: str, tmp_path: Path) -> None:
    """As Indigo's: ten runs, each result's state copied to the next run's argument; then once more from 0."""
    made = bundle("policy", of="recurrent", api="argument")
    found = numbers(run([build(tmp_path, kind, ARGUMENT, made)], tmp_path)).reshape(2, 10, 5)
    np.testing.assert_allclose(found[0], recurrent_runs(10), atol=1e-6)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("api", APIS)
def test_runs_from_python(api: str) -> None:
    np.testing.assert_allclose(bundle(api=api).run({"image": image()})["scores"], scores(), atol=1e-6)


@pytest.mark.parametrize("api", APIS)
def test_object_needs_nothing(api: str) -> None:
    made = bundle(api=api)
    code = made.files["net.o"]
    assert undefined_symbols(code) == []
    public = set(made.manifest["symbols"])
    assert {s for s in defined_symbols(code) if s != "net_weights_data"} == public
    if api in ("direct", "static"):
        assert writable_bytes(code) == 0
    assert writable_bytes(code) == made.manifest["sizes"]["static_bytes"]
    assert made.manifest["sizes"]["stack_bytes"] > 0


def test_arguments_are_checked(tmp_path: Path) -> None:
    program = """
#include "net.h"
static unsigned char arena[NET_ARENA_SIZE + 64] __attribute__((aligned(64)));
int main(void) {
    float image[NET_IMAGE_COUNT] = {0}, scores[NET_SCORES_COUNT];
    if (net(0, scores, arena) != NET_ERR_NULL) return 1;
    if (net(image, 0, arena) != NET_ERR_NULL) return 2;
    if (net(image, scores, 0) != NET_ERR_NULL) return 3;
    if (net(image, scores, arena + 32) != NET_ERR_ALIGN) return 4;
    return net(image, scores, arena + 64);
}
"""
    run([build(tmp_path, "gcc", program, bundle())], tmp_path)


def test_misaligned_inputs_are_allowed_to_the_element(tmp_path: Path) -> None:
    """Inputs and outputs need the alignment of their elements only: floats at addresses 4 modulo 64."""
    program = """
#include <stdio.h>
#include <string.h>
#include "net.h"
static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(64)));
static float memory[NET_IMAGE_COUNT + 1] __attribute__((aligned(64)));
static float results[NET_SCORES_COUNT + 1] __attribute__((aligned(64)));
int main(void) {
    memset(arena, 0xFF, sizeof arena);
    for (int i = 0; i < 36; i++) memory[i + 1] = (float)(i % 7) / 4 - 0.5f;
    for (int run = 0; run < 2; run++) {
        if (net(memory + 1, results + 1, arena)) return 1;
        for (int i = 0; i < 5; i++) printf("%.9g\\n", results[i + 1]);
    }
    return 0;
}
"""
    found = numbers(run([build(tmp_path, "gcc", program, bundle())], tmp_path))
    np.testing.assert_allclose(found, np.tile(scores()[0], 2), atol=1e-6)


SHARED_ARENA = """
#include <stdio.h>
#include <string.h>
#include "one.h"
#include "two.h"
#include "policy.h"
#define MOST(a, b) ((a) > (b) ? (a) : (b))
static unsigned char arena[MOST(ONE_ARENA_SIZE, TWO_ARENA_SIZE)] __attribute__((aligned(64)));
int main(void) {
    float image[ONE_IMAGE_COUNT], first[5], second[5];
    memset(arena, 0xFF, sizeof arena);
    policy_constructor();
    for (int i = 0; i < 36; i++) image[i] = (float)(i % 7) / 4 - 0.5f;
    for (int run = 0; run < 2; run++) {
        if (one(image, first, arena) || policy_run() || two(image, second, arena)) return 1;
        for (int i = 0; i < 5; i++) printf("%.9g %.9g\\n", first[i], second[i]);
    }
    return 0;
}
"""


def test_three_bundles_in_one_program_share_an_arena(tmp_path: Path) -> None:
    """The shipped objects, linked as they are."""
    bundles = [bundle("one"), bundle("two"), bundle("policy", of="recurrent", api="argument")]
    for made in bundles:
        write(tmp_path, made.files)
    write(tmp_path, {"program.c": SHARED_ARENA})
    main = compile_c("gcc", tmp_path, "program.c", "-std=c99", *STRICT)
    found = numbers(run([link(tmp_path, [main, "one.o", "two.o", "policy.o"])], tmp_path)).reshape(2, 5, 2)
    np.testing.assert_allclose(found, np.broadcast_to(scores()[0][None, :, None], (2, 5, 2)), atol=1e-6)


THREADS = """
#include <pthread.h>
#include <string.h>
#include "net.h"
enum { THREADS = 8 };
static unsigned char arenas[THREADS][NET_ARENA_SIZE] __attribute__((aligned(64)));
static float results[THREADS][NET_SCORES_COUNT];
static float image[NET_IMAGE_COUNT];
static void *work(void *which) {
    const int t = *(int *)which;
    for (int run = 0; run < 20; run++)
        if (net(image, results[t], arenas[t])) results[t][0] = -1;
    return 0;
}
int main(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    memset(arenas, 0xFF, sizeof arenas);
    for (int i = 0; i < 36; i++) image[i] = (float)(i % 7) / 4 - 0.5f;
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        if (pthread_create(&threads[t], 0, work, &numbers[t])) return 1;
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], 0);
    for (int t = 0; t < THREADS; t++)
        if (results[t][0] < 0 || memcmp(results[0], results[t], sizeof results[0])) return 2;
    return 0;
}
"""


def test_eight_threads_agree_under_the_thread_sanitizer(tmp_path: Path) -> None:
    made = bundle(target="c99")
    write(tmp_path, {**made.files, "program.c": THREADS})
    flags = ("-std=gnu99", *STRICT, "-O1", "-g", "-fsanitize=thread")
    objects = [compile_c("gcc", tmp_path, n, *flags) for n in ("program.c", *sources(made))]
    program = link(tmp_path, objects, "-fsanitize=thread", "-pthread")
    run(
        ["setarch", "-R", program], tmp_path
    )  # the sanitizer wants its shadow where randomised addresses may be


@pytest.mark.parametrize("api", APIS)
def test_clean_under_address_and_undefined_sanitizers(api: str, tmp_path: Path) -> None:
    """The program that `--emit main` makes, the C unoptimised: it runs twice on an arena of 0xFF."""
    made = bundle(api=api, emit=("c", "main"))
    write(tmp_path, made.files)
    flags = (
        "-std=gnu99",
        "-O0",
        "-g",
        "-march=native",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    )
    objects = [compile_c("gcc", tmp_path, n, *flags) for n in sources(made)]
    program = link(tmp_path, objects, "-fsanitize=address,undefined")
    environment = ["env", "ASAN_OPTIONS=detect_leaks=0"]
    assert run([*environment, program], tmp_path).endswith("OK\n")


FRESH = """{
            unsigned char *const fresh = malloc(NET_ARENA_SIZE + 64);
            if (net(image, scores, fresh + (64 - (size_t)fresh % 64))) return 2;
            free(fresh);
        }"""


def test_clean_under_valgrind(tmp_path: Path) -> None:
    """Memory that nobody wrote is never read; the arena is left uninitialised for valgrind to watch."""
    need("valgrind")
    made = bundle(target="c99")
    write(tmp_path, {**made.files, "program.c": DIRECT.replace("memset(arena, 0xFF, sizeof arena);", FRESH)})
    flags = ("-std=gnu99", "-O1", "-g")
    objects = [compile_c("gcc", tmp_path, n, *flags) for n in ("program.c", *sources(made))]
    run(["valgrind", "-q", "--error-exitcode=9", link(tmp_path, objects)], tmp_path)
