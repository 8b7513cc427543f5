/* hf_config.c - The quantisation settings of config.json. */
#include "engine/formats/hf.h"
#include <string.h>

static const char what[] = "config.json";

/* A key of the config, or of its text_config. */
static const json_t *find(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value))
        value = json_object_get(json_object_get(config, "text_config"), key);
    return json_is_null(value) ? NULL : value;
}

static sl_status refuse(const sl_hf_folder *folder, const char *method) {
    return sl_fail(folder->err, SL_UNSUPPORTED,
                   "%s: quantised by '%.48s', which is not supported; supported are MLX (affine, "
                   "mxfp4, mxfp8, nvfp4), fp8 with weight_scale_inv, mxfp4, and F32, F16 or BF16",
                   what, sl_json_name_fits(method) ? method : "?");
}

static sl_status check_method(const sl_hf_folder *folder, const json_t *how) {
    const char *method = json_string_value(json_object_get(how, "quant_method"));
    if (!method) method = json_string_value(json_object_get(how, "quant_algo"));
    if (!method) return refuse(folder, "an unnamed method");
    if (strcmp(method, "mxfp4") == 0) return SL_OK;
    if (strcmp(method, "fp8") != 0) return refuse(folder, method);
    const json_t *kind = json_object_get(how, "fmt");
    const char *format = json_string_value(kind);
    if (!kind || json_is_null(kind) || (format && strcmp(format, "e4m3") == 0)) return SL_OK;
    return sl_fail(folder->err, SL_UNSUPPORTED, "%s: fp8 as '%.16s' is not supported, wanted e4m3",
                   what, format && sl_json_name_fits(format) ? format : "?");
}

sl_status sl_hf_read_config(sl_hf_folder *folder) {
    const json_t *mlx = find(folder->config, "quantization");
    const json_t *how = find(folder->config, "quantization_config");
    const char *type = json_string_value(json_object_get(folder->config, "model_type"));
    folder->model_type = type ? type : "";
    const json_t *layers = find(folder->config, "num_hidden_layers");
    const json_int_t count = json_integer_value(layers);
    folder->layers = count > 0 && count < 1 << 20 ? (uint32_t)count : 0;
    if ((mlx && !json_is_object(mlx)) || (how && !json_is_object(how)))
        return sl_fail(folder->err, SL_FORMAT, "%s: '%s' is not an object", what,
                       mlx && !json_is_object(mlx) ? "quantization" : "quantization_config");
    /* MLX writes its settings under both names. */
    if (!mlx && how && !json_object_get(how, "quant_method") && json_object_get(how, "bits"))
        mlx = how;
    folder->quantization = mlx;
    folder->method = mlx ? NULL : how;
    return folder->method ? check_method(folder, how) : SL_OK;
}
