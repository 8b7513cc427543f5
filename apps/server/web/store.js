/* store.js - Conversations in the browser: IndexedDB, with one record for each conversation and each
 * message, so that several tabs do not overwrite each other's messages.  Without IndexedDB (some private
 * windows) they are kept in memory until the tab is closed. */

import { local } from "./dom.js";

const NAME = "sluice", VERSION = 1;
const UNLOADED = "sluice-unloaded-";

const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
});

const finished = (transaction) => new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error ?? new Error("the browser stopped storing"));
});

function openDatabase() {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
        request.result.createObjectStore("conversations", { keyPath: "id" });
        request.result.createObjectStore("messages", { keyPath: "id" }).createIndex("conversation", "conversation");
    };
    return done(request);
}

export class Store {
    /* onChange({conversation, removed}): another tab changed a conversation.
     * onTrouble(text): something could not be stored. */
    static async open(onChange, onTrouble) {
        const store = new Store();
        store.onTrouble = onTrouble;
        store.memory = { conversations: new Map(), messages: new Map() };
        store.channel = new BroadcastChannel(NAME);
        store.channel.onmessage = ({ data }) => onChange(data);
        try {
            store.database = await openDatabase();
            store.database.onversionchange = () => store.database.close();
        } catch (error) {
            store.database = null;
            onTrouble(`This browser stores nothing here (${error.message}): conversations are lost when the tab is closed.`);
        }
        await store.takeUnloaded();
        return store;
    }

    /* Runs change(conversations, messages) on both stores; false: it was not stored. */
    async write(conversation, change, removed = false) {
        if (!this.database) {
            change(...["conversations", "messages"].map((name) => memoryStore(this.memory[name])));
            return true;
        }
        try {
            const transaction = this.database.transaction(["conversations", "messages"], "readwrite");
            change(transaction.objectStore("conversations"), transaction.objectStore("messages"));
            await finished(transaction);
        } catch (error) {
            this.onTrouble(error.name === "QuotaExceededError"
                ? "The browser's storage is full: export or delete conversations. What is new is only in this tab."
                : `The browser could not store the conversation: ${error.message}`);
            return false;
        }
        this.channel.postMessage({ conversation, removed });
        return true;
    }

    /* Stores a conversation and some of its messages. */
    save(meta, messages = []) {
        return this.write(meta.id, (conversations, stored) => {
            conversations.put(meta);
            for (const message of messages) stored.put(message);
        });
    }

    removeMessages(meta, ids) {
        return this.write(meta.id, (conversations, messages) => {
            conversations.put(meta);
            for (const id of ids) messages.delete(id);
        });
    }

    async remove(id) {
        const messages = await this.messages(id);
        return this.write(id, (conversations, stored) => {
            conversations.delete(id);
            for (const message of messages) stored.delete(message.id);
        }, true);
    }

    /* The page goes away: a transaction would not be finished, but local storage is written at once. */
    keepUnload(message) {
        try {
            local.setItem(UNLOADED + message.id, JSON.stringify(message));
        } catch { /* full: what was stored before has to do */ }
    }

    /* Stores what pages kept when they went away. */
    async takeUnloaded() {
        for (const key of Object.keys(local).filter((name) => name.startsWith(UNLOADED))) {
            const message = JSON.parse(local.getItem(key));
            local.removeItem(key);
            const meta = await this.conversation(message.conversation);
            const known = (await this.messages(message.conversation)).find(({ id }) => id === message.id);
            if (known?.state === "streaming" && known.updated < message.updated) await this.save(meta, [message]);
        }
    }

    async all(name, ...range) {
        if (!this.database) return [...this.memory[name].values()];
        const objects = this.database.transaction(name).objectStore(name);
        return done(range.length ? objects.index("conversation").getAll(...range) : objects.getAll());
    }

    async conversations() {
        return (await this.all("conversations")).sort((a, b) => b.updated - a.updated);
    }

    async conversation(id) {
        if (!this.database) return this.memory.conversations.get(id);
        return done(this.database.transaction("conversations").objectStore("conversations").get(id));
    }

    async messages(id) {
        return (await this.all("messages", id)).filter(({ conversation }) => conversation === id);
    }

    /* The ids of conversations in which a message has the text. */
    async search(text) {
        const wanted = text.toLowerCase();
        const found = new Set();
        for (const { conversation, content } of await this.all("messages"))
            if (!found.has(conversation) && content.toLowerCase().includes(wanted)) found.add(conversation);
        return found;
    }
}

const memoryStore = (map) => ({
    put: (value) => map.set(value.id, value),
    delete: (id) => map.delete(id),
});
