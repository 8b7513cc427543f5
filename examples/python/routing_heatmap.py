"""Draws which experts a prompt and its answer use: routing_heatmap.py [MODEL [PROMPT [PICTURE]]].

Needs matplotlib (pip install matplotlib).
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import sluice  # noqa: E402


def main() -> None:
    given = dict(enumerate(sys.argv))
    path = given.get(1, "models/fable")
    prompt = given.get(2, "Tell me a story about a brave fox.")
    picture = given.get(3, "routing.png")
    with sluice.Model(path) as model:
        answer = model.chat(prompt, temperature=0)
        uses = model.expert_uses().uses
        tokens = answer.prompt_tokens + len(answer.tokens)

    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    image = axes.imshow(uses, aspect="auto", cmap="magma", interpolation="nearest")
    axes.set(xlabel="expert", ylabel="layer", yticks=range(len(uses)))
    axes.set_title(f"{tokens} tokens: {prompt}", fontsize=10)
    figure.colorbar(image, label="forward passes that use it")
    figure.savefig(picture, dpi=100)
    print(f"{picture}: {answer.content}")


if __name__ == "__main__":
    main()
