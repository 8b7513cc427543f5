"""Runs the program on a pseudo-terminal, as a person does.  Usage: terminal.py PROGRAM"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
MODEL = os.path.abspath("models/fable")
LIMIT = 120  # seconds; a sanitizer is slow
failed = 0


def holds(name, good, shown=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'not ok'} - {name}")
    if not good:
        print("# " + repr(shown)[-600:])


class Terminal:
    """A program whose input and messages are a terminal; its answers too, unless they go to a file."""

    def __init__(self, *arguments, folder, output=None, **environment):
        self.master, slave = pty.openpty()
        variables = dict(os.environ, HOME=folder, TERM="xterm", **environment)
        for name in ("SLUICE_MODEL", "SLUICE_BUDGET"):
            variables.pop(name, None)
        if "NO_COLOR" not in environment:
            variables.pop("NO_COLOR", None)
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=slave, stderr=slave, cwd=folder,
                                        stdout=output or slave, env=variables, start_new_session=True,
                                        preexec_fn=lambda: os.system("stty -echo 2>/dev/null"))
        os.close(slave)
        self.seen = b""

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        try:
            piece = os.read(self.master, 65536) if ready else b""
        except OSError:  # the other end is closed
            return False
        self.seen += piece
        return bool(piece)

    def wait_for(self, pattern):
        end = time.time() + LIMIT
        while time.time() < end and not re.search(pattern, self.seen):
            if not self.read(1) and self.process.poll() is not None:
                break
        return bool(re.search(pattern, self.seen))

    def send(self, text):
        os.write(self.master, text)

    def end(self, seconds=LIMIT):
        """The exit code; None if it had to be killed."""
        end = time.time() + seconds
        while time.time() < end and self.process.poll() is None:
            self.read(0.1)
        code = self.process.poll()
        if code is None:
            self.process.kill()
        self.process.wait()
        while self.read(0.1):
            pass
        os.close(self.master)
        return code


def one_ctrl_d(folder):
    t = Terminal("run", "-m", MODEL, "--temp", "0", folder=folder)
    t.wait_for(rb"Ctrl-D")
    t.send(b"What is 17 + 25?\n\x04")
    code = t.end(20)
    holds("one Ctrl-D ends a typed prompt", code == 0 and b"42" in t.seen, t.seen)
    holds("a terminal is told that the prompt is read", b"reading the prompt ..." in t.seen, t.seen)


def pasting(folder):
    with open(os.path.join(folder, "apple-pie"), "w"), open(os.path.join(folder, "out"), "w+b") as out:
        t = Terminal("chat", "-m", MODEL, "--temp", "0", folder=folder, output=out)
        t.wait_for(rb"leaves|quits")
        holds("chat tells the name of the model", MODEL.encode() in t.seen, t.seen)
        t.wait_for(rb"> ")
        t.send(b"\x1b[200~What is\r17\t+ 25?\rPlease.\x1b[201~")
        time.sleep(0.5)
        t.send(b"\r")
        end = time.time() + LIMIT
        while time.time() < end and os.path.getsize(out.name) == 0:
            t.read(0.2)
        t.send(b"a\tb\r")
        while time.time() < end and open(out.name, "rb").read().count(b"\n") < 2:
            t.read(0.2)
        before = len(t.seen)
        t.send(b"\x03")
        t.wait_for(rb"(?s).{%d}.*leaves" % before)
        holds("Ctrl-C at an empty prompt says how to leave", b"leaves" in t.seen[before:], t.seen[before:])
        t.send(b"/quit\r")
        code = t.end(20)
        holds("/quit leaves", code == 0, t.seen)
        answers = open(out.name, "rb").read()
        holds("pasted lines are one message", answers.count(b"\n") == 2, answers)
    try:
        history = open(os.path.join(folder, ".sluice_history")).read()
    except OSError:
        history = ""
    lines = history.splitlines()[1:]
    holds("a message is one entry of the history", any("What\\040is\\01217" in l for l in lines), history)
    holds("a tab is a character", any(l == "a\\011b" for l in lines), history)


def interrupting(folder):
    slow = ("run", "-m", MODEL, "--raw", "--device", "ref", "--temp", "30", "--seed", "1", "-p", "Tell <think>")
    t = Terminal(*slow, folder=folder)
    t.wait_for(rb"\x1b\[2m.{8}")
    t.process.send_signal(signal.SIGINT)
    code = t.end()
    holds("Ctrl-C ends run with 130", code == 130, code)
    holds("Ctrl-C in a thought resets the terminal", t.seen.rfind(b"\x1b[0m") > t.seen.rfind(b"\x1b[2m") > 0,
          t.seen)
    with open(os.path.join(folder, "json"), "w+b") as out:
        t = Terminal(*slow, "--json", "--stats", "--verbose", folder=folder, output=out)
        t.wait_for(rb"experts in memory")
        time.sleep(1)
        t.process.send_signal(signal.SIGINT)
        code = t.end()
        try:
            ended = json.load(open(out.name))["ended"]
        except ValueError:
            ended = "nothing"
        holds("Ctrl-C prints what was done", code == 130 and ended == "stopped" and b"prefill" in t.seen,
              (code, ended, t.seen))


def colours(folder):
    for environment, wanted in ({}, True), ({"NO_COLOR": "1"}, False):
        t = Terminal("info", "/nonexistent", folder=folder, **environment)
        t.end()
        holds(f"errors are {'red' if wanted else 'plain where NO_COLOR is set'}",
              (b"\x1b[31m" in t.seen) == wanted, t.seen)


for test in one_ctrl_d, pasting, interrupting, colours:
    with tempfile.TemporaryDirectory() as place:
        test(place)
sys.exit(failed > 0)
