#!/usr/bin/env python3
"""Writes tests/data/message/templates.json: what Jinja2 makes of messages with tool calls.

Each case is a chat template that treats calls as the templates of one family do (its types, what it
refuses and what it leaves out), a list of messages as a client of the OpenAI API sends them, the text
that Jinja2 renders once they are as this template wants them, and the part of it that the model would
have written.  Needs the jinja2 package; the environment is that of make_template_fixtures.py.

    tools/make_message_fixtures.py [TOKENIZERS] > tests/data/message/templates.json

TOKENIZERS: a folder with tokenizer_config.json of real models; those cases name the file instead of
holding its template.
"""
import copy
import json
import sys

from make_template_fixtures import make_environment

CHATML_END = "{{- '<|im_end|>\\n' }}"
LOOP = "{%- for m in messages %}"
GENERATE = "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
OBJECT = "{%- if c.arguments is string %}{{ raise_exception('arguments are a string') }}{%- endif %}"
RESULTS = """{%- elif m.role == 'tool' %}
{%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}"""
CHATML = LOOP + """
{%- if m.role != 'assistant' and m.role != 'tool' %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant\\n' }}
{%- if m.reasoning_content %}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}
{{- m.content }}{%- for c in m.tool_calls or [] %}{%- set c = c.function %}CALL{%- endfor %}""" + CHATML_END + RESULTS + \
    "{%- endif %}" + GENERATE


def chatml(call):
    return CHATML.replace("CALL", call)


HERMES = chatml("""{%- if m.content or not loop.first %}{{- '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' + c.name + '", "arguments": ' }}
{%- if c.arguments is string %}{{- c.arguments }}{%- else %}{{- c.arguments | tojson }}{%- endif %}{{- '}\\n</tool_call>' }}""")
QWEN_XML = chatml(OBJECT + """{{- '\\n<tool_call>\\n<function=' + c.name + '>\\n' }}
{%- for k, v in c.arguments.items() %}{{- '<parameter=' + k + '>\\n' }}
{{- v if v is string else v | tojson }}{{- '\\n</parameter>\\n' }}{%- endfor %}{{- '</function>\\n</tool_call>' }}""")
GLM = chatml("""{{- '\\n<tool_call>' + c.name + '\\n' }}{%- for k, v in c.arguments.items() %}
{{- '<arg_key>' + k + '</arg_key>\\n<arg_value>' + (v if v is string else v | tojson) + '</arg_value>\\n' }}
{%- endfor %}{{- '</tool_call>' }}""")
GLM_47 = GLM.replace("c.name + '\\n'", "c.name").replace("</arg_key>\\n", "</arg_key>").replace("</arg_value>\\n", "</arg_value>") \
    .replace("'\\n<tool_call>'", "'<tool_call>'")

DEEPSEEK = """{%- for m in messages %}
{%- if m.role == 'system' %}{{- m.content }}{%- elif m.role == 'user' %}{{- '<｜User｜>' + m.content + '<｜Assistant｜>' }}
{%- elif m.role == 'tool' %}{{- OUTPUT }}
{%- elif m.role == 'assistant' %}BODY{{- '<｜end▁of▁sentence｜>' }}{%- endif %}{%- endfor %}"""
# Calls are only looked at where the content is null, and arguments are added to a string.
DEEPSEEK_V3 = DEEPSEEK.replace("OUTPUT", "'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜><｜tool▁outputs▁end｜>'") \
    .replace("BODY", """{%- if m.content is none %}{{- '<｜tool▁calls▁begin｜>' }}{%- for c in m.tool_calls %}{%- if not loop.first %}{{- '\\n' }}{%- endif %}
{{- '<｜tool▁call▁begin｜>' + c.type + '<｜tool▁sep｜>' + c.function.name + '\\n```json\\n' + c.function.arguments + '\\n```<｜tool▁call▁end｜>' }}
{%- endfor %}{{- '<｜tool▁calls▁end｜>' }}{%- else %}{{- m.content }}{%- endif %}""")
DEEPSEEK_V31 = DEEPSEEK.replace("OUTPUT", "'<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>'") \
    .replace("BODY", """{{- m.content }}{%- if m.tool_calls %}{{- '<｜tool▁calls▁begin｜>' }}{%- for c in m.tool_calls %}
{{- '<｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + c.function.arguments + '<｜tool▁call▁end｜>' }}
{%- endfor %}{{- '<｜tool▁calls▁end｜>' }}{%- endif %}""")
DSML = DEEPSEEK.replace("OUTPUT", "'\\n<result>' + m.content + '</result>'").replace("BODY", """{%- set d = '｜DSML｜' %}
{%- if m.reasoning_content %}{{- '<think>' + m.reasoning_content + '</think>' }}{%- endif %}{{- m.content }}
{%- if m.tool_calls %}{{- '\\n\\n<' + d + 'function_calls>\\n' }}{%- for c in m.tool_calls %}
{{- '<' + d + 'invoke name="' + c.function.name + '">\\n' }}{%- for k, v in c.function.arguments.items() %}
{{- '<' + d + 'parameter name="' + k + '" string="' + ('true' if v is string else 'false') + '">' }}
{{- v if v is string else v | tojson }}{{- '</' + d + 'parameter>\\n' }}{%- endfor %}{{- '</' + d + 'invoke>\\n' }}
{%- endfor %}{{- '</' + d + 'function_calls>' }}{%- endif %}""")
DSML_V4 = DSML.replace("function_calls>", "tool_calls>")

HARMONY = """{%- set ns = namespace(name=none) %}{%- for m in messages %}
{%- if m.role == 'assistant' and 'tool_calls' in m %}
{%- if m.content and m.thinking %}{{ raise_exception('content and thinking') }}{%- endif %}
{%- if m.content %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.content + '<|end|>' }}
{%- elif m.thinking %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{%- endif %}
{%- set c = m.tool_calls[0].function %}{%- set ns.name = c.name %}
{{- '<|start|>assistant to=functions.' + c.name + '<|channel|>commentary json<|message|>' + c.arguments|tojson + '<|call|>' }}
{%- elif m.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'tool' %}{%- if not ns.name %}{{ raise_exception('a result without a call') }}{%- endif %}
{{- '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary<|message|>' + m.content|tojson + '<|end|>' }}
{%- else %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

NINE = "{%- if c.id is not defined or c.id|length != 9 %}{{ raise_exception('ids have nine letters') }}{%- endif %}"
MISTRAL = """{{- bos_token }}{%- for m in messages %}{%- if m.role == 'user' or m.role == 'system' %}{{- '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]{"content": ' + m.content + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{- m.content }}CALLS{{- '</s>' }}{%- endif %}{%- endfor %}"""
MISTRAL_LIST = MISTRAL.replace("CALLS", """{%- if m.tool_calls %}{{- '[TOOL_CALLS][' }}{%- for c in m.tool_calls %}""" + NINE +
                               """{{- c.function | tojson }}{%- if not loop.last %}{{- ', ' }}{%- endif %}
{%- endfor %}{{- ']' }}{%- endif %}""")
MISTRAL_ARGS = MISTRAL.replace("CALLS", "{%- for c in m.tool_calls or [] %}" + NINE +
                               "{{- '[TOOL_CALLS]' + c.function.name + '[CALL_ID]' + c.id + '[ARGS]' + c.function.arguments|tojson }}{%- endfor %}")
MINISTRAL = MISTRAL_ARGS.replace("'[CALL_ID]' + c.id + ", "")
LLAMA = chatml("""{{- '{"name": "' + c.name + '", "parameters": ' + c.arguments|tojson + '}' }}""")

ARGUMENTS = [{"city": "Zürich \"Altstadt\"\nnorth", "days": 3}, {"z": [1, {"a": None}], "b": True, "a": "x"}]
IDS = ["abcdefgh1", "ABC456789"]


def call(index, arguments=None):
    text = json.dumps(ARGUMENTS[index], ensure_ascii=index == 0) if arguments is None else arguments
    return {"id": IDS[index], "type": "function", "function": {"name": ["get_weather", "other.tool"][index], "arguments": text}}


def conversation(count, content=None, reasoning=None, key="reasoning_content"):
    answer = {"role": "assistant", "content": content, "tool_calls": [call(i) for i in range(count)]}
    if reasoning:
        answer[key] = reasoning
    results = [{"role": "tool", "tool_call_id": IDS[i], "content": str(i)} for i in reversed(range(count))]
    return [{"role": "user", "content": [{"type": "text", "text": "Weather"}, {"type": "text", "text": "?"}]}, answer, *results]


CONVERSATIONS = [conversation(1), conversation(2), conversation(1, "Let me see."), conversation(2, "Two."),
                 conversation(1, None, "hm"), conversation(1, "Yes.", "hm", "reasoning")]


def text_of(content):
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def ready(messages, strings=False, nulls=False, apart=False, one=False, thinking=False):
    """The messages as a template with these wishes takes them."""
    out, names = [], {}
    for m in copy.deepcopy(messages):
        m["content"] = text_of(m["content"])
        reasoning = m.pop("reasoning", None) or m.get("reasoning_content")
        if reasoning:
            m["reasoning_content"] = reasoning
        calls = m.get("tool_calls")
        for c in calls or []:
            names[c["id"]] = c["function"]["name"]
            if not strings:
                c["function"]["arguments"] = json.loads(c["function"]["arguments"])
        if m["role"] == "tool":
            m["name"] = names[m["tool_call_id"]]
        if thinking and reasoning:
            m["thinking"] = reasoning
            if calls and m["content"]:
                m["thinking"] += "\n\n" + m["content"]
                m["content"] = ""
        if calls and apart and m["content"]:
            rest = {"role": "assistant", "content": "", "tool_calls": m.pop("tool_calls")}
            out += [m, rest]
        else:
            out.append(m)
        if out[-1].get("tool_calls") and nulls and not out[-1]["content"]:
            out[-1]["content"] = None
    if not one:
        return out
    results = {m["tool_call_id"]: m for m in out if m["role"] == "tool"}
    split = []
    for m in out:
        if m["role"] != "tool" and not m.get("tool_calls"):
            split.append(m)
        for i, c in enumerate(m.get("tool_calls", [])):
            first = {**m, "tool_calls": [c]}
            split.append(first if i == 0 else {"role": "assistant", "content": "", "tool_calls": [c]})
            split.append(results[c["id"]])
    return split


# family, template, wishes, the end of the model's turn, whether it has reasoning
V3_WISHES = {"strings": True, "nulls": True, "apart": True}
CASES = [
    ("hermes", HERMES, {}, "<|im_end|>", True),
    ("qwen_xml", QWEN_XML, {}, "<|im_end|>", True),
    ("glm", GLM, {}, "<|im_end|>", True),
    ("glm", GLM_47, {}, "<|im_end|>", True),
    ("deepseek_v3", DEEPSEEK_V3, V3_WISHES, "<｜end▁of▁sentence｜>", False),
    ("deepseek_v3_1", DEEPSEEK_V31, {"strings": True}, "<｜end▁of▁sentence｜>", False),
    ("deepseek_v3_2", DSML, {}, "<｜end▁of▁sentence｜>", True),
    ("deepseek_v4", DSML_V4, {}, "<｜end▁of▁sentence｜>", True),
    ("harmony", HARMONY, {"one": True, "thinking": True}, None, True),
    ("mistral", MISTRAL_LIST, {}, "</s>", False),
    ("mistral", MISTRAL_ARGS, {}, "</s>", False),
    ("mistral", MINISTRAL, {}, "</s>", False),
    ("json", LLAMA, {}, "<|im_end|>", True),
]
REAL = [("hermes", "qwen3", {}), ("deepseek_v3", "deepseek_v3", V3_WISHES)]


def render(template, messages, generate=False):
    variables = {"messages": messages, "add_generation_prompt": generate, "bos_token": "<s>", "eos_token": "</s>"}
    return make_environment(variables).from_string(template).render(**variables)


def model_turn(template, fit, end, reasons):
    """What the model wrote of these messages: the text, and what it means."""
    answer = fit[1]
    text = render(template, fit[:2])[len(render(template, fit[:1], end is not None)):]
    reasoning = answer.get("reasoning_content") if reasons else None
    content = answer["content"] or ""
    if end is None:  # harmony: both are analysis
        content, reasoning = "", answer.get("thinking") or content or None
    calls = [[c["function"]["name"], ARGUMENTS[IDS.index(c["id"])]] for c in answer.get("tool_calls", [])]
    return {"text": text.split(end)[0] if end else text, "content": content, "reasoning": reasoning, "calls": calls}


def case(family, template, wishes, end=None, reasons=False, turns=True):
    fits = [ready(given, **wishes) for given in CONVERSATIONS]
    # A call must be the whole message where it has no marker.
    known = [turns and not (family == "json" and fit[1]["content"]) for fit in fits]
    return {"family": family, "texts": [render(template, fit) for fit in fits],
            "turns": [model_turn(template, fit, end, reasons) if k else None for fit, k in zip(fits, known)]}


def main():
    out = [{"template": template, **case(family, template, *rest)} for family, template, *rest in CASES]
    for family, name, wishes in REAL if len(sys.argv) > 1 else []:
        file = f"tokenizers/{name}/tokenizer_config.json"
        template = json.load(open(f"{sys.argv[1]}/{name}/tokenizer_config.json"))["chat_template"]
        out.append({"file": file, **case(family, template, wishes, turns=False)})
    json.dump({"conversations": CONVERSATIONS, "templates": out}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
