/* SPDX-License-Identifier: 0BSD
 * Text behind a text, by the decoder sums.onnx. Needs nothing of a C library. */
#ifndef GENERATE_H
#define GENERATE_H

typedef void put_text(const char *text);

/* Hands `put` the prompt and what follows, token by token, up to the end of the line or of the context.
 * Returns NULL, or what is wrong with the prompt. */
const char *generate(const char *prompt, put_text *put);

#endif
