"""What coding agents send, replayed: a prompt of 25 thousand tokens, twenty tools, several turns, in the three
forms in which agents ask.  Each turn sends the whole conversation again, and must reuse what was computed of it.

The model has random weights, so that its words mean nothing; what the agent calls and gets back is part of the
log.  Its chat template shows no tools, and its tokens are bytes: the instructions are as long as both would be."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
from support import CHAT, PROGRAM, Server, check, events, finish  # noqa: E402

SHAPE = {"model_type": "qwen3_5_moe", "text_config": {
    "vocab_size": 4096, "hidden_size": 256, "num_hidden_layers": 4, "max_position_embeddings": 32768,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64}}
NAMES = ["read", "write", "edit", "glob", "grep", "bash", "ls", "todo_write", "web_fetch", "web_search", "task",
         "notebook_edit", "multi_edit", "kill_shell", "bash_output", "exit_plan_mode", "ask_user", "slash_command",
         "mcp__git__status", "mcp__git__diff"]
LEAST_TOKENS = 25000


def tool_schema(name):
    return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
            "required": ["path"], "properties": {
                "path": {"type": "string", "description": f"The absolute path that {name} works on."},
                "limit": {"type": "integer", "exclusiveMinimum": 0, "description": "At most so many lines."},
                "mode": {"type": "string", "enum": ["content", "files", "count"]},
                "edits": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
                    "old": {"type": "string"}, "new": {"type": "string"}}, "required": ["old", "new"]}}}}


def describe(name):
    return f"The tool {name}: it is used where nothing else does the work.\n- It never guesses.\n" * 3


INSTRUCTIONS = "\n".join(f"{i}. When you edit files, read them first; keep to the style that is there; rule {i}."
                         for i in range(300))
RESULTS = ["1\t#include <stdio.h>\n2\tint main(void) { return 0; }\n" * 4, "[exit 1] make: *** No rule. \u2018all\u2019 \x1b[31m",
           "ok"]


def read_stream(server, path, body, headers):
    """(events, usage of the last, seconds)"""
    began = time.monotonic()
    status, _, text = server.request("POST", path, body, headers)
    found = [(name, json.loads(data)) for name, data in events(text) if data != "[DONE]"]
    return status, found, time.monotonic() - began, text


def check_turns(name, turns, cold):
    """Of each turn: (tokens of the prompt, those reused, seconds).  The instructions are the same for all agents, so
    that only the first of all turns finds nothing: it takes `cold` seconds."""
    check(f"{name}: a long prompt", turns[0][0] >= LEAST_TOKENS, turns)
    for i in range(1, len(turns)):
        check(f"{name}: turn {i + 1} reuses turn {i}", turns[i][1] >= 0.95 * turns[i - 1][0] and turns[i][0] > turns[i - 1][0],
              turns)
    check(f"{name}: what is reused is not computed", max(t[2] for t in turns if t[1]) < cold / 2, turns)


def replay_messages(server):
    """As Claude Code: blocks, a line in the system message that is another each time, cache_control everywhere."""
    tools = [{"name": n, "description": describe(n), "input_schema": tool_schema(n)} for n in NAMES]
    tools.append({"type": "web_search_20250305", "name": "web", "max_uses": 5})
    cached = {"cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nToday is a day.\n</system-reminder>"},
        {"type": "text", "text": "Fix the build.", **cached}]}]
    headers = {"Anthropic-Version": "2023-06-01", "Anthropic-Beta": "interleaved-thinking-2025-05-14", "X-Api-Key": "k",
               "User-Agent": "claude-cli/2.0 (external, cli)", "X-Stainless-Retry-Count": "0", "Accept": "application/json"}
    check("messages: HEAD /", server.request("HEAD", "/", headers=headers)[0] == 200)
    turns = []
    for turn in range(4):
        body = {"model": "claude-sonnet-4-5", "max_tokens": 24, "stream": True, "temperature": 1, "tools": tools,
                "metadata": {"user_id": "user_1"}, "thinking": {"type": "disabled"}, "messages": messages,
                "context_management": {"edits": []}, "system": [
                    {"type": "text", "text": f"x-anthropic-billing-header: cch={turn}{turn};"},
                    {"type": "text", "text": "You are an agent.", **cached}, {"type": "text", "text": INSTRUCTIONS, **cached}]}
        counted = server.json("POST", "/v1/messages/count_tokens?beta=true",
                              {k: body[k] for k in ("model", "system", "tools", "messages", "thinking")}, headers)[1]
        status, found, seconds, text = read_stream(server, "/v1/messages?beta=true", body, headers)
        pings = sum(n == "ping" for n, _ in found)
        found = [(n, d) for n, d in found if n != "ping"]
        names = [n for n, _ in found]
        check(f"messages: the silence of turn {turn + 1}", pings >= int(seconds / 6), (pings, seconds))
        check(f"messages: events of turn {turn + 1}", status == 200 and names[:2] == ["message_start", "content_block_start"]
              and names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
              and all(n == d["type"] for n, d in found), text[-500:])
        started, usage = found[0][1]["message"]["usage"], found[-2][1]["usage"]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
        check(f"messages: counts of turn {turn + 1}", prompt == counted.get("input_tokens") ==
              started["input_tokens"] + started["cache_read_input_tokens"], (counted, started, usage))
        turns.append((prompt, usage["cache_read_input_tokens"], seconds))
        said = "".join(d["delta"].get("text", "") for _, d in found if d["type"] == "content_block_delta")
        # Two calls at once, whose results come together with what the user says.
        messages += [{"role": "assistant", "content": [{"type": "text", "text": said or "I look."}] + [
            {"type": "tool_use", "id": f"toolu_{turn}{i}", "name": NAMES[i], "input": {"path": f"/a/{i}", "limit": 5}}
            for i in range(2)]}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{turn}0", "content": RESULTS[turn % 3]},
                {"type": "tool_result", "tool_use_id": f"toolu_{turn}1", "is_error": True, "content": [
                    {"type": "text", "text": RESULTS[(turn + 1) % 3], **cached}]}]}]
    check_turns("messages", turns, turns[0][2])
    return turns[0][2]


def replay_responses(server, cold):
    """As Codex: nothing is stored, the whole input each turn."""
    tools = [{"type": "function", "name": n, "description": describe(n), "strict": False, "parameters": tool_schema(n)}
             for n in NAMES] + [{"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}, {"type": "local_shell"}]
    items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions/>"}]},
             {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the build."}]}]
    turns = []
    for turn in range(3):
        body = {"model": "gpt-5-codex", "instructions": INSTRUCTIONS, "input": items, "tools": tools, "tool_choice": "auto",
                "parallel_tool_calls": False, "store": False, "stream": True, "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": "0199", "max_output_tokens": 24, "text": {"verbosity": "medium"},
                "reasoning": {"effort": "none", "summary": "auto"}}
        status, found, seconds, text = read_stream(server, "/v1/responses", body, {
            "Authorization": "Bearer k", "Accept": "text/event-stream", "OpenAI-Beta": "responses=experimental"})
        names = [n for n, _ in found]
        check(f"responses: events of turn {turn + 1}", status == 200 and names[:2] == [
            "response.created", "response.in_progress"] and names[-1] in ("response.completed", "response.incomplete")
            and [d["sequence_number"] for _, d in found] == list(range(len(found))), text[-500:])
        final = found[-1][1]["response"]
        usage = final["usage"]
        turns.append((usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], seconds))
        items += [item for item in final["output"] if item["type"] == "message"] + [
            {"type": "function_call", "call_id": f"call_{turn}", "name": "bash", "arguments": "{\"path\":\"/a\"}"},
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": RESULTS[turn]},
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}]
    check_turns("responses", turns, cold)


def replay_chat(server, cold):
    """As opencode, qwen-code and others, with usage at the end of the stream."""
    tools = [{"type": "function", "function": {"name": n, "description": describe(n), "parameters": tool_schema(n)}}
             for n in NAMES]
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": [
        {"type": "text", "text": "Fix the build."}]}]
    turns = []
    for turn in range(3):
        body = {"model": "qwen3-coder", "messages": messages, "tools": tools, "tool_choice": "auto", "stream": True,
                "stream_options": {"include_usage": True}, "max_tokens": 24, "temperature": 0.55, "top_p": 1, "store": False,
                "chat_template_kwargs": {"enable_thinking": False}, "prompt_cache_key": "ses_1"}
        status, found, seconds, text = read_stream(server, CHAT, body, {"Authorization": "Bearer k"})
        parts = [d for _, d in found if d["choices"]]
        check(f"chat: chunks of turn {turn + 1}", status == 200 and text.endswith(b"data: [DONE]\n\n")
              and parts[0]["choices"][0]["delta"].get("role") == "assistant" and parts[-1]["choices"][0]["finish_reason"]
              and len({d["id"] for _, d in found}) == 1, text[-500:])
        usage = found[-1][1]["usage"]
        turns.append((usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], seconds))
        said = "".join(p["choices"][0]["delta"].get("content") or "" for p in parts)
        messages += [{"role": "assistant", "content": said, "tool_calls": [
            {"id": f"call_{turn}{i}", "type": "function", "function": {"name": NAMES[i], "arguments": "{\"path\": \"/a\"}"}}
            for i in range(2)]}] + [{"role": "tool", "tool_call_id": f"call_{turn}{i}", "content": RESULTS[i]} for i in range(2)]
    check_turns("chat", turns, cold)


def test_progress(server):
    """The prompt of a stream, while it is computed."""
    for path, more in (CHAT, {"max_tokens": 1}), ("/v1/responses", {"max_output_tokens": 1}):
        text = f"{path}: " + INSTRUCTIONS[:8000]
        body = {"messages": [{"role": "user", "content": text}], "input": text, "stream": True, "return_progress": True, **more}
        status, found, _, _ = read_stream(server, path, body, {})
        told = [d["prompt_progress"] for _, d in found if "prompt_progress" in d]
        done = [p["processed"] for p in told]
        check(f"progress of {path}", status == 200 and told and done == sorted(set(done)) and done[-1] <= told[0]["total"]
              and told[0]["total"] > 8000, told)


def main():
    with tempfile.TemporaryDirectory() as folder:
        shape, model = os.path.join(folder, "config.json"), os.path.join(folder, "model.sluice")
        with open(shape, "w") as file:
            json.dump(SHAPE, file)
        subprocess.run([PROGRAM, "synth", "--shape", shape, "--quiet", model], check=True)
        with Server("--parallel", "2", "--context", "32768", "--quiet", model=model) as server:
            cold = replay_messages(server)
            replay_responses(server, cold)
            replay_chat(server, cold)
            test_progress(server)
            check("SIGTERM", server.stop() == 0)
    finish()


main()
