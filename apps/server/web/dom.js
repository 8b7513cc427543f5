/* dom.js - Building and finding elements, icons, and texts of numbers. */

export const $ = (selector, root = document) => root.querySelector(selector);

/* el("button", {class: "x", onclick: f, "aria-label": "Copy"}, child, "text"): null children are left out. */
export function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (value === null || value === undefined || value === false) continue;
        if (name === "class") node.className = value;
        else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else if (name in node && !name.startsWith("aria-")) node[name] = value;
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

/* Paths of 24 x 24 pictures that are drawn with lines. */
const ICONS = {
    menu: "M4 7h16M4 12h16M4 17h16",
    plus: "M12 5v14M5 12h14",
    search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l4.5 4.5",
    gear: "M4 8h9M17 8h3M4 16h3M11 16h9M15 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM9 18.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z",
    sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4",
    moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
    auto: "M12 4a8 8 0 0 0 0 16zM12 4a8 8 0 0 1 0 16",
    help: "M9.2 9a2.8 2.8 0 1 1 4 2.6c-.8.4-1.2 1-1.2 1.9M12 17.2v.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
    chart: "M4 20V10M10 20V4M16 20v-7M21 20H3",
    send: "M12 19V6M6 11l6-6 6 6",
    stop: "M7 7h10v10H7z",
    copy: "M9 9h11v11H9zM15 9V4H4v11h5",
    check: "M5 12.5l4.5 4.5L19 7.5",
    edit: "M5 19l.8-3.6L16 5.2l2.8 2.8L8.6 18.2z",
    redo: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
    fork: "M7 5v14M7 12c6 0 9-1 9-6M13.5 8 16 5.2 18.6 8",
    trash: "M5 7h14M10 7V5h4v2M7 7l.8 12h8.4L17 7M10.5 10.5v5M13.5 10.5v5",
    left: "M14 6l-6 6 6 6",
    right: "M10 6l6 6-6 6",
    dots: "M5.5 12h.01M12 12h.01M18.5 12h.01",
    down: "M12 5v12M6 12l6 6 6-6M5 21h14",
    up: "M12 18V6M6 11l6-6 6 6M5 21h14",
    close: "M6 6l12 12M18 6L6 18",
    expand: "M14 4h6v6M10 20H4v-6M20 4l-7 7M4 20l7-7",
    tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5l-2.7 2.7-2.9-.6-.6-2.9z",
};

export function icon(name) {
    const space = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(space, "svg");
    picture.setAttribute("viewBox", "0 0 24 24");
    picture.setAttribute("aria-hidden", "true");
    picture.setAttribute("class", "icon icon-" + name);
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", ICONS[name]);
    picture.append(path);
    return picture;
}

export function iconButton(name, label, onclick, props = {}) {
    return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...props }, icon(name));
}

/* Puts the icons into the buttons of index.html, which name them in data-icon. */
export function fillIcons() {
    for (const button of document.querySelectorAll("[data-icon]")) {
        button.prepend(icon(button.dataset.icon));
        if (button.hasAttribute("aria-label")) button.title = button.getAttribute("aria-label");
    }
}

/* ---- Numbers as texts ---- */

export const whole = (number) => Math.round(number).toLocaleString("en-US");

export function bytesText(bytes) {
    let unit = 0;
    for (; bytes >= 999.5 && unit < 5; unit++) bytes /= 1000;
    return `${unit && bytes < 99.5 ? bytes.toPrecision(bytes < 9.95 ? 2 : 3) : Math.round(bytes)} ${["B", "kB", "MB", "GB", "TB", "PB"][unit]}`;
}

export function rateText(perSecond) {
    return perSecond >= 99.5 ? whole(perSecond) : perSecond >= 0.05 ? perSecond.toFixed(1) : "0";
}

export function secondsText(seconds) {
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`
        : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function percentText(share) {
    return share > 0.995 && share < 1 ? `${Math.floor(share * 1000) / 10} %` : `${Math.round(share * 100)} %`;
}

export const countText = (count, one, many = one + "s") => `${whole(count)} ${Math.round(count) === 1 ? one : many}`;

/* ---- Storage, the clipboard and files ---- */

/* localStorage or sessionStorage; where the browser forbids it, a replacement that ends with the page. */
function storage(name) {
    try {
        window[name].getItem("");
        return window[name];
    } catch {
        const values = new Map();
        return { getItem: (key) => values.get(key) ?? null, setItem: (key, value) => values.set(key, value), removeItem: (key) => values.delete(key) };
    }
}
export const local = storage("localStorage"), session = storage("sessionStorage");

/* Copies a text; without the clipboard of secure pages, by a selection. */
export async function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch { /* refused: the selection may do */ }
    }
    const field = el("textarea", { class: "offscreen", value: text, "aria-hidden": "true" });
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return done;
}

export function saveFile(name, type, text) {
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
