/* dialogs.js - Questions, the dialog for the API key, and menus.  They are <dialog> elements, which keep the
 * focus inside and give it back. */
import { $, el } from "./dom.js";

/* Shows a dialog that is removed when it closes; resolves with its returnValue, "" if it was dismissed. */
function show(dialog) {
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => {
        dialog.remove();
        resolve(dialog.returnValue);
    }));
}

let titles = 0;

function question(title, button, danger, ...fields) {
    const id = `question-${++titles}`;
    const cancel = el("button", { type: "button", onclick: () => dialog.close("") }, "Cancel");
    const dialog = el("dialog", { class: "small", "aria-labelledby": id },
        el("form", { method: "dialog" }, el("h2", { id }, title), ...fields,
            el("div", { class: "buttons" }, cancel, el("button", { value: "yes", class: danger ? "danger" : "primary" }, button))));
    return dialog;
}

export async function confirmed(text, button) {
    return (await show(question(text, button, true))) === "yes";
}

/* A line of text from the user; "" if dismissed. */
export async function ask(title, label, value) {
    const input = el("input", { type: "text", id: "question-text", value, required: true, maxLength: 200, autocomplete: "off" });
    const dialog = question(title, "Save", false, el("label", { for: "question-text" }, label), input);
    setTimeout(() => input.select());
    return (await show(dialog)) === "yes" ? input.value.trim() : "";
}

/* The key dialog of index.html: resolves with {value, keep}, or null. */
export function askKey(wrong) {
    const dialog = $("#key-dialog");
    const form = $("form", dialog);
    $("#key-fault").textContent = wrong ? "The server did not accept this key." : "";
    form.elements.key.value = "";
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => {
        const value = form.elements.key.value.trim();
        form.elements.key.value = "";
        resolve(dialog.returnValue === "yes" && value ? { value, keep: form.elements.keep.value === "browser" } : null);
    }, { once: true }));
}

/* Opens a menu at a button: rows of [label, action, danger]. */
export function openMenu(button, rows) {
    const items = rows.map(([label, action, danger]) => el("button", {
        type: "button", role: "menuitem", class: danger ? "danger" : "",
        onclick: () => {
            close();
            action();
        },
    }, label));
    const menu = el("div", { class: "menu", role: "menu", "aria-label": button.getAttribute("aria-label") }, ...items);
    function close() {
        document.removeEventListener("pointerdown", outside, true);
        menu.remove();
        button.setAttribute("aria-expanded", "false");
        button.focus();
    }
    function outside(event) {
        if (!menu.contains(event.target)) close();
    }
    menu.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step) items.at((items.indexOf(document.activeElement) + step) % items.length).focus();
        else if (event.key === "Escape" || event.key === "Tab") close();
        else return;
        event.preventDefault();
        event.stopPropagation();
    });
    const place = button.getBoundingClientRect();
    document.body.append(menu);
    menu.style.left = `${Math.max(8, Math.min(place.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${place.bottom + menu.offsetHeight + 8 > innerHeight ? place.top - menu.offsetHeight - 4 : place.bottom + 4}px`;
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    items[0].focus();
}
