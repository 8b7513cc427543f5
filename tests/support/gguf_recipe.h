/* gguf_recipe.h - The data of a GGUF file's tensors, made from a checkpoint of Hugging Face as
 * llama.cpp's converter does. */
#ifndef SL_TESTS_SUPPORT_GGUF_RECIPE_H
#define SL_TESTS_SUPPORT_GGUF_RECIPE_H
#include "engine/formats/gguf.h"
#include "sluice/tensors.h"

typedef struct {
    sl_tensors *tensors; /* of the checkpoint */
    json_t *config;      /* its config.json */
    const char *architecture;
} gguf_recipe;

/* Fills an F32 tensor; false: no row for its name. */
bool gguf_recipe_fill(const gguf_recipe *recipe, const sl_gguf_tensor *tensor, float *out);
#endif
