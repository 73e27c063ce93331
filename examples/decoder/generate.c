/* SPDX-License-Identifier: 0BSD
 * The prompt becomes tokens, the decoder reads them a chunk at a time, and the likeliest next token is fed
 * back until a line ends. The caches of keys and values are in `state`; a run changes them where they are. */
#include "generate.h"

#include <stddef.h>

#include "sums.h"
#include "tokens.h"

enum { CHUNK = SUMS_TOKENS_COUNT, CONTEXT = 64 };

static unsigned char arena[SUMS_ARENA_SIZE] __attribute__((aligned(SUMS_ARENA_ALIGN)));
static struct sums_state state;
static float logits[SUMS_LOGITS_COUNT];

/* Joins every occurrence of a pair, from the left; returns how many tokens are left. */
static int join(int64_t *tokens, int count, int a, int b, int token) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept > 0 && tokens[kept - 1] == a && tokens[i] == b)
            tokens[kept - 1] = token;
        else
            tokens[kept++] = tokens[i];
    }
    return kept;
}

/* Byte pair encoding; the number of tokens, -1 where a byte is none or there are more than `room`. */
static int encode(const char *text, int64_t *tokens, int room) {
    int count = 0;
    for (; *text; text++) {
        const int token = token_of_byte[(unsigned char)*text];
        if (token < 0 || count == room) return -1;
        tokens[count++] = token;
    }
    for (int i = 0; i < MERGES; i++) count = join(tokens, count, merges[i][0], merges[i][1], LETTERS + i);
    return count;
}

static int likeliest(const float *scores) {
    int best = 0;
    for (int i = 1; i < TOKENS; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

/* Reads `count` tokens behind the `used` ones that the caches hold; the likeliest next token or -1. */
static int next(const int64_t *tokens, int count, int used) {
    int size = 0;
    for (int i = 0; i < count; i += size) {
        size = count - i < CHUNK ? count - i : CHUNK;
        const int32_t last = used + i + size - 1;
        if (sums(size, tokens + i, &last, logits, &state, arena) != SUMS_OK) return -1;
    }
    return likeliest(logits + (size - 1) * TOKENS);
}

const char *generate(const char *prompt, put_text *put) {
    int64_t tokens[4 * CONTEXT];
    int count = encode(prompt, tokens, 4 * CONTEXT), used = 0;
    if (count < 0) return "the prompt is too long, or has a letter that the text has not";
    if (count == 0 || count >= CONTEXT) return "the prompt has no token, or more than the context holds";
    put(prompt);
    sums_state_init(&state);
    while (used + count <= CONTEXT) {
        const int token = next(tokens, count, used);
        if (token < 0) return "the decoder refuses its input";
        const char *text = text_of_token[token];
        put(text);
        while (*text && *text != '\n') text++;
        if (*text) return NULL;
        used += count;
        tokens[0] = token;
        count = 1;
    }
    return NULL;
}
