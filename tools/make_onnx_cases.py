#!/usr/bin/env python3
"""Copies cases of opsets 18 to 21 from ONNX's own suite into tests/data/onnx, which Debian's copy of the suite does not have.

Needs the package onnx, 1.16 or later: tools/make_onnx_cases.py [FOLDER]"""
import pathlib
import shutil
import sys

import onnx

CASES = """affine_grid_2d affine_grid_3d_align_corners averagepool_2d_dilations bitwise_and_i32_2d bitwise_not_2d bitwise_or_i16_4d
bitwise_xor_ui8_bcast_4v3d center_crop_pad_crop center_crop_pad_crop_and_pad center_crop_pad_crop_axes_hwc center_crop_pad_pad
constant_pad_axes constant_pad_negative_axes dequantizelinear_axis dequantizelinear_int16 dft_inverse dft_opset19 gelu_default_1
gelu_tanh_1 group_normalization_epsilon group_normalization_example isinf_float16 isnan_float16 lppool_2d_dilations
qlinearmatmul_2D_uint8_float16 quantizelinear_int16 reduce_l1_keep_dims_random reduce_log_sum_default reduce_max_bool_inputs
reduce_max_do_not_keepdims_example reduce_mean_default_axes_keepdims_random reduce_min_keepdims_random reduce_sum_square_negative_axes_keepdims_example
reduce_prod_empty_set reduce_sum_empty_set_non_reduced_axis_zero reshape_allowzero_reordered resize_downsample_scales_linear_antialias
resize_downsample_sizes_nearest_not_larger resize_tf_crop_and_resize_axes_3_2 resize_upsample_scales_nearest_axes_3_2
scatter_elements_with_reduction_max split_1d_uneven_split_opset18 split_2d_uneven_split_opset18
wrap_pad maxpool_2d_ceil_output_size_reduce_by_one""".split()

source = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/onnx") / "node"
for name in CASES:
    case = source / f"test_{name}"
    if not case.is_dir():
        print(f"onnx {onnx.__version__} has no case {name}")
        continue
    shutil.rmtree(target / case.name, ignore_errors=True)
    shutil.copytree(case, target / case.name)
