"""A conversation in the terminal: chat.py [MODEL]; Ctrl-C stops an answer, Ctrl-D leaves."""

import sys

import sluice


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "models/fable"
    with sluice.Model(path) as model:
        messages = []
        for line in sys.stdin:
            messages.append({"role": "user", "content": line.strip()})
            with model.chat_stream(messages) as stream:
                try:
                    for delta in stream:
                        print(delta.reasoning or delta.content, end="", flush=True)
                    messages.append(stream.result)
                except KeyboardInterrupt:
                    messages.pop()
            print()


if __name__ == "__main__":
    main()
