/* generation.js - One answer while it arrives: the request, and what the chunks do to the message. */
import { apiMessages } from "./conversation.js";
import { requestFields } from "./settings.js";
import { ServerError, streamChat } from "./stream.js";

const STORE_MS = 1500; /* how often a partial answer is stored */

export class Generation {
    /* hooks: onUpdate(generation), onStore(generation). */
    constructor(tree, message, model, hooks) {
        this.tree = tree;
        this.message = message;
        this.model = model;
        this.hooks = hooks;
        this.controller = new AbortController();
        this.began = performance.now();
        this.stored = this.began;
        this.firstToken = 0;
        this.chunks = 0; /* with text; about as many as tokens */
        this.progress = null; /* {total, cache, processed, time_ms} while the prompt is computed */
    }

    body() {
        const { settings } = this.tree.meta;
        return {
            ...(this.model ? { model: this.model } : {}),
            messages: apiMessages(settings.system, this.tree.path(this.message.parent)),
            stream: true,
            stream_options: { include_usage: true },
            return_progress: true,
            ...requestFields(settings),
        };
    }

    /* Resolves when the answer is complete, stopped or failed: the message says which. */
    async run() {
        const { message } = this;
        try {
            await streamChat(this.body(), this.controller.signal, (chunk) => this.take(chunk));
            message.state = "done";
        } catch (error) {
            message.state = error.kind === "stopped" ? "stopped" : "failed";
            message.error = error instanceof ServerError
                ? { kind: error.kind, message: error.message, retryAfter: error.retryAfter }
                : { kind: "refused", message: `The request could not be made: ${error.message}` };
        } finally {
            this.endThinking();
            this.progress = null;
            this.finish();
        }
    }

    stop() {
        this.controller.abort();
    }

    finish() {
        this.ended = performance.now();
        this.message.updated = Date.now();
        this.hooks.onUpdate(this);
        this.hooks.onStore(this);
    }

    take(chunk) {
        const { message } = this;
        const choice = chunk.choices?.[0];
        if (chunk.prompt_progress) this.progress = chunk.prompt_progress;
        if (choice?.delta) this.takeDelta(choice.delta);
        if (choice?.finish_reason) message.finish = choice.finish_reason;
        for (const name of ["usage", "timings", "sluice"]) if (chunk[name]) message[name] = chunk[name];
        const now = performance.now();
        message.updated = Date.now();
        this.hooks.onUpdate(this);
        if (now - this.stored > STORE_MS) {
            this.stored = now;
            this.hooks.onStore(this);
        }
    }

    takeDelta(delta) {
        const { message } = this;
        const thought = delta.reasoning_content ?? delta.reasoning;
        if (!thought && !delta.content && !delta.tool_calls) return;
        this.chunks++;
        this.progress = null;
        this.firstToken ||= performance.now();
        if (thought) {
            this.thinkingFrom ??= performance.now();
            message.reasoning = (message.reasoning ?? "") + thought;
        }
        if (delta.content || delta.tool_calls) this.endThinking();
        if (delta.content) message.content += delta.content;
        for (const call of delta.tool_calls ?? []) this.takeCall(call);
    }

    takeCall(found) {
        const calls = (this.message.calls ??= []);
        const place = Number.isInteger(found.index) ? Math.min(found.index, calls.length) : Math.max(0, calls.length - 1);
        const call = (calls[place] ??= { id: `call_${place}`, name: "", arguments: "" });
        if (found.id) call.id = found.id;
        if (found.function?.name) call.name = found.function.name;
        call.arguments += found.function?.arguments ?? "";
    }

    endThinking() {
        if (this.thinkingFrom === undefined || this.message.thinking_ms !== undefined) return;
        this.message.thinking_ms = Math.round(performance.now() - this.thinkingFrom);
    }

    /* The server thinks that it is still working on the prompt, or has not begun. */
    get waiting() {
        return !this.firstToken && this.message.state === "streaming";
    }
}
