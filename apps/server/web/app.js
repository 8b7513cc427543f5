/* app.js - Connects the parts of the page: the conversation that is open, answers that are being written,
 * the list, the panel, the keyboard. */
import { Announcer, ChatView } from "./chat.js";
import { Tree, exportJson, exportMarkdown, importJson, newConversation } from "./conversation.js";
import { $, countText, fillIcons, percentText, saveFile } from "./dom.js";
import { ask, askKey, confirmed } from "./dialogs.js";
import { Generation } from "./generation.js";
import { ConversationList } from "./list.js";
import { Panel } from "./panel.js";
import { SettingsDialog, cleanSettings, defaults } from "./settings.js";
import { Store } from "./store.js";
import { getJson, key } from "./stream.js";
import { connectDrawers, connectKeyboard, connectTheme } from "./frame.js";

const generations = new Map(); /* conversation id: the answer that is being written */
let store, chat, list, panel, settings, drawers;
let tree;             /* the conversation that is open */
let props = {};       /* what /props says */
let stats = null;
const hasKeyboard = matchMedia("(pointer: fine)").matches;
const announcer = new Announcer($("#live"));

/* ---- State that the header and the composer show ---- */

function banner(text) {
    $("#banner span").textContent = text;
    $("#banner").hidden = !text;
}

function showState(kind, text) {
    $("#state").dataset.kind = kind;
    $("#state").textContent = text;
}

function showFrame() {
    const generation = generations.get(tree.meta.id);
    $("#title").textContent = tree.meta.title || "New conversation";
    document.title = tree.meta.title ? `${tree.meta.title} – sluice` : "sluice";
    $("#welcome").hidden = tree.messages.size > 0;
    $("#send").hidden = Boolean(generation);
    $("#stop").hidden = !generation;
    $("#send").disabled = !$("#composer-text").value.trim();
    showContext();
}

function showContext() {
    const room = stats?.context_tokens;
    const used = tree.path().findLast(({ usage }) => usage)?.usage.total_tokens;
    $("#context").hidden = !room || !used;
    if (!room || !used) return;
    const share = Math.min(1, used / room);
    $("#context .meter i").style.width = `${share * 100}%`;
    $("#context-share").textContent = percentText(share);
    $("#context-room").textContent = ` of ${countText(room, "token")}`;
}

function refresh() {
    list.current = tree.meta.id;
    chat.show(tree);
    showFrame();
    list.refresh();
    if (document.activeElement === document.body && hasKeyboard) $("#composer-text").focus(); /* what had the focus is gone */
}

/* ---- Conversations ---- */

const isStored = () => tree.messages.size > 0;

let opened = 0; /* counts what was opened: what comes too late is not shown */

async function loadConversation(id) {
    const meta = await store.conversation(id);
    return meta && new Tree({ ...meta, settings: cleanSettings(meta.settings) }, await store.messages(id));
}

/* Opens a conversation, or a new one. */
async function openConversation(id, push = true) {
    const turn = ++opened;
    const found = generations.get(id)?.tree ?? (id ? await loadConversation(id) : null);
    if (turn !== opened) return;
    tree = found ?? new Tree(newConversation(defaults()));
    const hash = found ? `#${id}` : "";
    if (push && location.hash !== hash) history.pushState(null, "", hash || location.pathname);
    chat.follow = true;
    refresh();
}

function newOne() {
    drawers.closeList();
    openConversation(null);
    $("#composer-text").focus();
}

/* Another tab changed something. */
async function changedElsewhere({ conversation, removed }) {
    const writing = generations.has(conversation) || $("#messages form"); /* it would be lost */
    if (conversation !== tree.meta.id || writing) {
        list.refresh();
        return;
    }
    if (removed) return openConversation(null);
    const { head } = tree.meta; /* this tab stays on its path */
    await openConversation(conversation, false);
    if (tree.messages.has(head)) tree.meta.head = tree.lastLeaf(head);
    refresh();
}

async function loadTree(meta) {
    return meta.id === tree.meta.id ? tree : loadConversation(meta.id);
}

const fileName = (title) => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 50) || "conversation";

const listActions = {
    open(id) {
        drawers.closeList();
        openConversation(id);
        if (hasKeyboard) $("#composer-text").focus();
    },
    async rename(meta) {
        const title = await ask("Rename the conversation", "Title", meta.title);
        if (!title) return;
        if (meta.id === tree.meta.id) meta = tree.meta;
        meta.title = title;
        await store.save(meta);
        showFrame();
        list.refresh();
    },
    async exportJson(meta) {
        saveFile(`${fileName(meta.title)}.json`, "application/json", exportJson([await loadTree(meta)]));
    },
    async exportMarkdown(meta) {
        saveFile(`${fileName(meta.title)}.md`, "text/markdown", exportMarkdown(await loadTree(meta)));
    },
    async remove(meta) {
        if (!(await confirmed(`Delete “${meta.title}”?`, "Delete"))) return;
        await stop(meta.id);
        await store.remove(meta.id);
        if (meta.id === tree.meta.id) openConversation(null);
        else list.refresh();
    },
    isBusy: (id) => generations.has(id),
};

async function exportAll() {
    const trees = [];
    for (const { id } of await store.conversations()) trees.push(await loadConversation(id));
    saveFile("sluice-conversations.json", "application/json", exportJson(trees));
}

async function importFile(file) {
    try {
        const trees = importJson(await file.text(), cleanSettings);
        for (const found of trees) await store.save(found.meta, [...found.messages.values()]);
        banner(`Imported ${countText(trees.length, "conversation")}.`);
        if (trees.length) openConversation(trees[0].meta.id);
    } catch (error) {
        banner(`“${file.name}” cannot be imported: ${error.message}.`);
    }
}

/* ---- Answers ---- */

/* Stops the answer of a conversation, and waits until it has stopped. */
async function stop(id = tree.meta.id) {
    const generation = generations.get(id);
    if (!generation) return;
    generation.stop();
    await generation.finished;
}

const hooks = {
    onUpdate(generation) {
        const { message } = generation;
        if (generation.tree === tree) {
            chat.update(message);
            announcer.update(message.content, message.state !== "streaming");
        }
        if (generation === panel.generation) panel.drawAnswer();
    },
    onStore: (generation) => store.save(generation.tree.meta, [generation.message]),
};

/* Answers the message `parent` of the conversation that is open. */
async function generate(parent) {
    const own = tree;
    const id = own.meta.id;
    const message = own.add(parent, { role: "assistant", state: "streaming", updated: Date.now() });
    const generation = new Generation(own, message, $("#model").value, hooks);
    generations.set(id, generation);
    chat.follow = true;
    refresh();
    announcer.begin();
    panel.answerBegins(generation);
    if (location.hash !== `#${id}`) history.replaceState(null, "", `#${id}`);
    generation.finished = store.save(own.meta, own.path()).then(() => generation.run()).finally(() => {
        generations.delete(id);
        if (generation === panel.generation) panel.answerEnds();
        if (own === tree) showFrame();
        list.refresh();
    });
    await generation.finished;
    if (message.error?.kind === "key" && (await wantKey()) && own === tree) chatActions.retry(message);
}

/* Stops what is being written; false: meanwhile another conversation was opened. */
async function stopHere() {
    const own = tree;
    await stop();
    return own === tree;
}

async function send(text, parent = tree.meta.head) {
    if (!text.trim() || generations.has(tree.meta.id)) return;
    const message = tree.add(parent, { role: "user", content: text });
    await generate(message.id);
}

const chatActions = {
    generationOf: (message) => {
        const generation = generations.get(message.conversation);
        return generation?.message === message ? generation : null;
    },
    busy: () => generations.has(tree.meta.id),
    async edit(message, text) {
        if (await stopHere()) send(text, message.parent);
    },
    async regenerate(message) {
        if (await stopHere()) generate(message.parent);
    },
    /* An answer of which nothing arrived is replaced. */
    async retry(message) {
        const empty = !message.content && !message.reasoning && !message.calls?.length;
        if (empty && tree.messages.has(message.id)) store.removeMessages(tree.meta, tree.remove(message));
        generate(message.parent);
    },
    async fork(message) {
        const copy = tree.fork(message);
        await store.save(copy.meta, [...copy.messages.values()]);
        openConversation(copy.meta.id);
        banner("");
    },
    async remove(message) {
        const below = tree.children.get(message.id).length;
        if (!(await confirmed(below ? "Delete this message and all that follow it?" : "Delete this message?", "Delete"))) return;
        if (!(await stopHere()) || !tree.messages.has(message.id)) return;
        const gone = tree.remove(message);
        await store.removeMessages(tree.meta, gone);
        if (!isStored()) {
            await store.remove(tree.meta.id);
            return openConversation(null);
        }
        refresh();
    },
    async branch(message, step) {
        tree.switchBranch(message, step);
        await store.save(tree.meta);
        chat.follow = false;
        refresh();
        const shown = tree.path().find(({ parent }) => parent === message.parent);
        chat.focusMessage(shown.id);
    },
    async results(message, results) {
        let parent = message.id;
        for (const { call, text } of results)
            parent = tree.add(parent, { role: "tool", call: call.id, name: call.name, content: text }).id;
        generate(parent);
    },
};

function editLast() {
    const last = tree.path().findLast(({ role }) => role === "user");
    if (last) chat.startEdit(last);
    return Boolean(last);
}

/* ---- The server ---- */

let asking = null;     /* the answer to the question for a key, for all that wait for it */
let dismissed = false; /* the user did not want to give one: only what the user does asks again */

/* Asks for a key until the server takes one; false: the user gave up, or the server cannot be reached. */
function wantKey() {
    return (asking ??= askForKey().finally(() => (asking = null)));
}

async function askForKey() {
    for (;;) {
        const given = await askKey(Boolean(key.get()));
        dismissed = !given;
        if (dismissed) return false;
        key.set(given.value, given.keep);
        const error = await reach();
        if (error?.kind !== "key") return !error;
    }
}

/* What the server is; an error if it cannot be reached or wants a key. */
async function reach() {
    try {
        const { data } = await getJson("/v1/models");
        const names = data.map(({ id }) => id);
        $("#model").replaceChildren(...names.map((name) => new Option(name, name)));
        $("#model").hidden = names.length < 2;
        $("#model-name").textContent = names.length === 1 ? names[0] : "";
        props = await getJson("/props").catch(() => ({}));
        showState("ok", "Ready");
        getJson("/stats").then(takeStats, () => {}); /* the panel may be closed */
        panel.poll();
        return null;
    } catch (error) {
        return error;
    }
}

async function connect() {
    const error = await reach();
    if (error) troubled(error);
}

function troubled(error) {
    showState("off", { key: "No key", busy: "Busy" }[error.kind] ?? "Unreachable");
    if (error.kind !== "key") connectLater();
    else if (!dismissed) wantKey();
}

/* Tries again while the page is visible. */
function connectLater() {
    clearTimeout(connectLater.timer);
    connectLater.timer = setTimeout(() => (document.hidden ? connectLater() : connect()), 5000);
}

function takeStats(found) {
    stats = found;
    const { live = 0, queued = 0 } = found.requests ?? {};
    showState("ok", live ? `${live} live${queued ? `, ${queued} queued` : ""}` : "Ready");
    showContext();
}

/* What the server samples with if a request says nothing. */
function serverDefaults() {
    const found = props.default_generation_settings ?? {};
    return { ...found, ...found.params };
}

/* ---- Beginning ---- */

function connectComposer() {
    const field = $("#composer-text");
    const grow = () => {
        field.style.height = "auto";
        field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * 0.4)}px`;
        $("#send").disabled = !field.value.trim();
    };
    field.addEventListener("input", grow);
    field.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            $("#composer").requestSubmit();
        } else if (event.key === "ArrowUp" && !field.value && tree && editLast()) event.preventDefault();
    });
    $("#composer").addEventListener("submit", async (event) => {
        event.preventDefault();
        await ready;
        const text = field.value;
        if (!text.trim() || chatActions.busy()) return;
        field.value = "";
        grow();
        send(text);
    });
    $("#stop").addEventListener("click", () => stop());
    $(".skip").addEventListener("click", (event) => {
        event.preventDefault(); /* the address names the conversation */
        field.focus();
    });
}

function openSettings() {
    $("#key-forget").hidden = !key.get();
    settings.open(tree.meta.settings, async (changed) => {
        tree.meta.settings = changed;
        if (isStored()) await store.save(tree.meta);
    });
}

function connectButtons() {
    $("#new").addEventListener("click", newOne);
    $("#export").addEventListener("click", exportAll);
    $("#import").addEventListener("click", () => $("#import-file").click());
    $("#import-file").addEventListener("change", ({ target }) => {
        if (target.files[0]) importFile(target.files[0]);
        target.value = "";
    });
    $("#settings-open").addEventListener("click", openSettings);
    $("#help-open").addEventListener("click", () => $("#help").showModal());
    $("#banner button").addEventListener("click", () => banner(""));
    $("#key-cancel").addEventListener("click", () => $("#key-dialog").close(""));
    $("#key-forget").addEventListener("click", () => {
        key.forget();
        dismissed = false;
        settings.dialog.close();
        connect();
    });
    addEventListener("pagehide", () => generations.forEach(({ message }) => store.keepUnload(message)));
    addEventListener("popstate", () => openConversation(location.hash.slice(1), false));
}

async function begin() {
    fillIcons();
    connectComposer();
    store = await Store.open(changedElsewhere, banner);
    tree = new Tree(newConversation(defaults()));
    chat = new ChatView($("#messages"), $("#scroller"), chatActions);
    list = new ConversationList($("#conversations"), store, listActions);
    panel = new Panel($("#panel"), { onStats: takeStats, onError: troubled });
    settings = new SettingsDialog($("#settings"), serverDefaults);
    drawers = connectDrawers(() => panel.poll());
    connectTheme(() => panel.redraw());
    connectButtons();
    connectKeyboard({ newOne, stop, busy: chatActions.busy, openList: drawers.openList, togglePanel: drawers.togglePanel });
    await openConversation(location.hash.slice(1), false);
    document.body.dataset.ready = "yes";
    showState("off", "Connecting");
    connect();
}

const ready = begin();
