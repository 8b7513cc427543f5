/* stream.js - Requests to the server: the key, errors in words, and answers that arrive as events. */

import { local, session } from "./dom.js";

const KEY = "sluice-key";

/* The API key: of this tab, or of this browser if the user chose so. */
export const key = {
    get: () => session.getItem(KEY) ?? local.getItem(KEY) ?? "",
    set(value, keep) {
        this.forget();
        (keep ? local : session).setItem(KEY, value);
    },
    forget() {
        session.removeItem(KEY);
        local.removeItem(KEY);
    },
};

/* kind: key | busy | refused | failed | unreachable | broken | stopped. */
export class ServerError extends Error {
    constructor(kind, message, retryAfter = 0) {
        super(message);
        this.kind = kind;
        this.retryAfter = retryAfter; /* seconds; 0: unknown */
    }
}

function headers(more) {
    const value = key.get();
    return value ? { ...more, Authorization: `Bearer ${value}` } : more;
}

async function errorOf(response) {
    let message = "";
    try {
        const { error } = await response.json();
        message = typeof error === "string" ? error : error?.message ?? "";
    } catch { /* no JSON: the status has to do */ }
    const kinds = { 401: "key", 403: "key", 429: "busy", 503: "busy" };
    const kind = kinds[response.status] ?? (response.status < 500 ? "refused" : "failed");
    const words = {
        key: "The server asks for an API key.",
        busy: "The server is busy.",
        refused: `The server refused the request (${response.status}).`,
        failed: `The server failed (${response.status}).`,
    };
    const text = message ? `${words[kind]} It says: ${message.replace(/\.?$/, ".")}` : words[kind];
    return new ServerError(kind, text, Number(response.headers.get("retry-after")) || 0);
}

async function request(path, options) {
    let response;
    try {
        response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
    } catch (error) {
        if (error.name === "AbortError") throw new ServerError("stopped", "Stopped.");
        throw new ServerError("unreachable", "The server cannot be reached.");
    }
    if (!response.ok) throw await errorOf(response);
    return response;
}

export async function getJson(path, signal) {
    const response = await request(path, { headers: headers({}), signal });
    try {
        return await response.json();
    } catch {
        throw new ServerError("failed", `The server's answer to ${path} is not JSON.`);
    }
}

/* The data of server-sent events, as an async iterator of texts. */
export async function* events(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let parts = [], data = [];
    for (;;) {
        const { value, done } = await reader.read();
        const text = done ? decoder.decode() + "\n\n" : decoder.decode(value, { stream: true });
        const lines = text.split("\n");
        for (let i = 0; i < lines.length; i++) {
            parts.push(lines[i]);
            if (i === lines.length - 1) break; /* goes on with the next read */
            const line = parts.join("").replace(/\r$/, "");
            parts = [];
            if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
            else if (line === "" && data.length) {
                yield data.join("\n");
                data = [];
            }
        }
        if (done) return;
    }
}

/* Sends a chat request and calls onChunk with each chunk; resolves at [DONE], and rejects with a
 * ServerError: of kind broken if the answer had begun and the connection ended before it did. */
export async function streamChat(body, signal, onChunk) {
    const response = await request("/v1/chat/completions", {
        method: "POST",
        headers: headers({ "Content-Type": "application/json" }),
        body: JSON.stringify(body),
        signal,
    });
    let finished = false;
    try {
        for await (const text of events(response.body)) {
            if (text === "[DONE]") return;
            const chunk = JSON.parse(text);
            if (chunk.error) throw new ServerError("failed", `The server failed: ${chunk.error.message ?? chunk.error}`);
            finished ||= Boolean(chunk.choices?.[0]?.finish_reason);
            onChunk(chunk);
        }
    } catch (error) {
        if (error instanceof ServerError) throw error;
        if (signal.aborted) throw new ServerError("stopped", "Stopped.");
        throw new ServerError("broken", "The connection to the server broke. What had arrived is kept.");
    }
    if (!finished) throw new ServerError("broken", "The answer ended too early. What had arrived is kept.");
}
