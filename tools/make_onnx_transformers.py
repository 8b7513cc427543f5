#!/usr/bin/env python3
"""Makes the cases of tests/data/onnx/transformer: a GPT-2 and a ViT with random weights, as PyTorch's exporters write them,
with what onnxruntime computes.

Needs torch, transformers, onnx, onnxscript and onnxruntime: tools/make_onnx_transformers.py [--all] [FOLDER]

Each model is written by the exporter that traces (opset 17), with attention as products and a softmax (eager), and by the
one that decomposes (opset 20), with PyTorch's own op for attention (sdpa): the spellings differ.  --all also makes the other
two combinations.  Names and weights are kept; texts that describe the machine are not."""
import pathlib
import sys

import numpy
import onnx
import onnxruntime
import torch
import transformers

TOKENS, VOCABULARY, WIDTH, LAYERS, HEADS, PIXELS, PATCH = 6, 40, 16, 2, 2, 8, 4


class Gpt2(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=8, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, attn_implementation=attention))

    def forward(self, ids):
        # Given, so that tracing does not look for packed sequences, which the older exporter cannot write.
        positions, seen = torch.arange(TOKENS)[None], torch.ones(1, TOKENS, dtype=torch.long)
        return self.model(input_ids=ids, position_ids=positions, attention_mask=seen, use_cache=False).logits


class Vit(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.model = transformers.ViTModel(transformers.ViTConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
            image_size=PIXELS, patch_size=PATCH, attn_implementation=attention), add_pooling_layer=False)

    def forward(self, pixels):
        return self.model(pixel_values=pixels).last_hidden_state


def randomise(model):
    """Exporters leave out what a fresh model has as zeros and ones."""
    for name, weight in model.named_parameters():
        is_gain = weight.dim() == 1 and name.endswith("weight")
        torch.nn.init.normal_(weight, 1.0 if is_gain else 0.0, 0.2)


def export(model, inputs, path, decomposes):
    if decomposes:
        torch.onnx.export(model, inputs, dynamo=True, input_names=["x"], output_names=["y"]).save(path)
    else:
        torch.onnx.export(model, inputs, path, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"])
    written = onnx.load(path)
    del written.metadata_props[:], written.graph.metadata_props[:], written.graph.value_info[:]
    written.doc_string = written.graph.doc_string = ""
    for item in [*written.graph.node, *written.graph.input, *written.graph.output, *written.graph.initializer]:
        item.doc_string = ""
        del item.metadata_props[:]
    onnx.save(written, path)


def save(path, values, name):
    path.write_bytes(onnx.numpy_helper.from_array(values, name).SerializeToString())


def make(folder, kind, attention, decomposes, inputs):
    torch.manual_seed(19)
    model = kind(attention).eval()
    randomise(model)
    case = folder / f"test_{kind.__name__.lower()}_{attention}_{'decomposed' if decomposes else 'traced'}"
    data = case / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    path = str(case / "model.onnx")
    with torch.no_grad():
        export(model, (inputs,), path, decomposes)
        wanted = model(inputs).numpy()
    found = onnxruntime.InferenceSession(path).run(None, {"x": inputs.numpy()})[0]
    assert numpy.abs(found - wanted).max() < 1e-4 * numpy.abs(wanted).max(), path
    save(data / "input_0.pb", inputs.numpy(), "x")
    save(data / "output_0.pb", found, "y")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--all"]
    folder = pathlib.Path(arguments[0] if arguments else "tests/data/onnx/transformer")
    ways = [("eager", False), ("sdpa", True)]
    if "--all" in sys.argv:
        ways += [("sdpa", False), ("eager", True)]
    torch.manual_seed(7)
    ids = torch.randint(0, VOCABULARY, (1, TOKENS))
    pixels = torch.randn(1, 3, PIXELS, PIXELS)
    for attention, decomposes in ways:
        make(folder, Gpt2, attention, decomposes, ids)
        make(folder, Vit, attention, decomposes, pixels)


main()
