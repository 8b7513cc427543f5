#!/usr/bin/python3
"""page_test.py - The page of `sluice serve` in a browser, against mock.py and against the program itself.

Wants Debian's chromium, chromium-driver and python3-selenium; without them it says so and passes.  With
$SLUICE_PROGRAM that can serve, the cases of `Anywhere` run against it with models/fable too.  With
axe-core ($SLUICE_AXE: its axe.min.js) its rules are applied as well.
    page_test.py [-v] [CASE...]
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.common.exceptions import JavascriptException, StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

from mock import Mock

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
SECONDS = 40  # until a case gives up waiting; the machine may be busy
PROGRAM = os.environ.get("SLUICE_PROGRAM")

# The accessible name of each control that is shown, or what it is if it has none.
UNNAMED = """
return [...document.querySelectorAll("button, a[href], input, select, textarea, summary, [tabindex='0']")].filter((node) => {
    if (!node.checkVisibility({visibilityProperty: true}) || node.type === "hidden") return false;
    const labelled = (node.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "");
    const labels = [...(node.labels ?? [])].map((label) => label.textContent);
    const own = node.matches("button, a, summary, pre, .table") ? node.textContent : "";
    return ![node.getAttribute("aria-label"), ...labelled, ...labels, own].some((text) => text?.trim());
}).map((node) => node.outerHTML.slice(0, 120));
"""

# Texts that are shown with a contrast below 4.5 (3 where they are large) to the colour behind them.
FAINT = """
const parse = (color) => {
    const canvas = (window.contrastCanvas ??= new OffscreenCanvas(1, 1)).getContext("2d", {willReadFrequently: true});
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
};
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
    for (; node; node = node.parentElement) {
        const color = parse(getComputedStyle(node).backgroundColor);
        if (color[3] > 0.99) return color;
    }
    return [255, 255, 255, 1];
};
const found = [];
let count = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility({visibilityProperty: true}) || node.closest(".offscreen, :disabled, noscript")) continue;
    const style = getComputedStyle(node);
    const [one, other] = [light(parse(style.color)), light(behind(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    count++;
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) found.push(walker.currentNode.data.trim().slice(0, 40) + ": " + ratio.toFixed(2));
}
return [count, found];
"""

# Pixels of the heat-map as one number.
HEAT = """
const canvas = document.querySelector("#heatmap canvas");
const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let sum = 0;
for (let i = 0; i < data.length; i++) sum = (sum * 31 + data[i]) % 1000003;
return sum;
"""

# Renders texts of random pieces of Markdown and HTML, whole and as they grow: what is not made for Markdown.
RANDOM_MARKDOWN = r"""
const [turns, done] = arguments;
const PIECES = ["<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "<a href='javascript:window.hacked=1'>", "[a](", "](", ")",
    "javascript:window.hacked=1", "data:text/html,<script>", "https://a.example/", "<https://a.example/?\"onclick=x>", "![", "[", "]", "`", "```", "```html\n",
    "~~~", "*", "**", "__", "~~", "$", "$$", "\\[", "\\(", "\\", "\n", "\n\n", "> ", "- ", "1. ", "- [ ] ", "# ", "|", "\n|-|-|\n", "    ", "\t",
    "&lt;", "&#x6a;", "&", "<", ">", "\"", "'", "word", "\u0000", "\u202e", "\ud800", "\r", "<svg/onload=window.hacked=1>", "<!--", "-->", "</div>", "</p>", "<iframe srcdoc='<script>'>"];
const ELEMENTS = new Set("P H3 H4 H5 H6 EM STRONG DEL A CODE SPAN BR HR PRE BLOCKQUOTE UL OL LI INPUT DIV BUTTON TABLE THEAD TBODY TR TH TD".split(" "));
const ATTRIBUTES = new Set("class href title target rel type tabindex role aria-label start disabled checked".split(" "));
let seed = 7;
const below = (count) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 9) % count;
import("./markdown.js").then(({MarkdownView}) => {
    const strange = [];
    let elements = 0;
    const frame = document.createElement("div");
    document.body.append(frame);
    for (let turn = 0; turn < turns && strange.length < 5; turn++) {
        const view = new MarkdownView(frame);
        let text = "";
        for (let length = 1 + below(25); length > 0; length--) {
            text += PIECES[below(PIECES.length)];
            if (turn % 3 === 0) view.update(text);
        }
        view.update(text);
        for (const node of frame.querySelectorAll("*")) {
            elements++;
            const bad = [...node.attributes].find(({name}) => !ATTRIBUTES.has(name));
            const wrong = node.tagName === "A" && !["http:", "https:", "mailto:"].includes(node.protocol);
            if (bad || wrong || !ELEMENTS.has(node.tagName)) strange.push(JSON.stringify(text) + ": " + node.outerHTML.slice(0, 100));
        }
        const whole = frame.innerHTML;
        new MarkdownView(frame).update(text);
        if (frame.innerHTML !== whole) strange.push("grown otherwise: " + JSON.stringify(text));
    }
    frame.remove();
    done({strange, elements});
}, (error) => done({strange: [String(error)], elements: 0}));
"""


def missing():
    if webdriver is None:
        return "selenium (python3-selenium)"
    return next((path for path in (CHROMIUM, DRIVER) if not os.path.exists(path)), None)


class Page(unittest.TestCase):
    """A browser, and what a user does with the page."""

    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        cls.folder = tempfile.mkdtemp(prefix="page-")
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        cls.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": cls.folder})

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        shutil.rmtree(cls.folder)

    def open(self, path="/"):
        self.requested()
        self.faults()  # those of the case before
        self.driver.get(self.address + path)
        self.until(lambda: self.js("return document.body.dataset.ready"), "the page is ready")

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def until(self, condition, what):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(StaleElementReferenceException, JavascriptException, IndexError):
                value = condition()
                if value:
                    return value
            time.sleep(0.03)
        self.fail(f"after {SECONDS} s still not: {what}")

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        found = self.all(selector)
        self.assertTrue(found, f"no {selector}")
        return found[0]

    def click(self, selector):
        self.js("arguments[0].click()", self.one(selector))

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", selector)

    def send(self, text):
        self.one("#composer-text").send_keys(text, Keys.ENTER)

    def is_done(self):
        return self.one("#stop").get_attribute("hidden") is not None and not self.all(".message.streaming")

    def done(self):
        """Waits until no answer is being written; returns the last."""
        self.until(self.is_done, "the answer is complete")
        return (self.texts(".message.assistant .content") or [""])[-1]

    def asked(self, text):
        before = len(self.all(".message.user"))
        self.send(text)
        self.until(lambda: len(self.all(".message.user")) > before, "the message is shown")
        return self.done()

    def confirm(self):
        self.until(lambda: self.all("dialog[open] button[value=yes]"), "a question")
        self.click("dialog[open] button[value=yes]")

    def faults(self):
        """Errors on the console, but those of statuses that the case provokes."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" and "the server responded with a status of" not in entry["message"]
                and "ERR_CONNECTION_REFUSED" not in entry["message"] and "ERR_INCOMPLETE_CHUNKED" not in entry["message"]]

    def requested(self):
        """The addresses that the browser asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]

    def assertOwnOrigin(self):
        urls = [url for url in self.requested() if not url.startswith(("blob:", "chrome:", "about:"))]
        self.assertTrue(urls)
        self.assertEqual([url for url in urls if not url.startswith(self.address + "/")], [])


class Anywhere:
    """Cases for every server.  lengthy: a question with a long answer; lasts: one of many seconds."""

    def test_conversation(self):
        self.open()
        self.requested()
        first = self.asked(self.question)
        self.assertTrue(first.strip())
        second = self.asked("And then?")
        self.assertTrue(second.strip())
        self.assertEqual(len(self.all(".message")), 4)
        self.assertEqual(self.driver.title, f"{self.question} – sluice")
        self.assertIn("tokens", self.texts(".figures")[-1])
        self.driver.refresh()
        self.until(lambda: len(self.all(".message")) == 4, "the conversation after reloading")
        self.assertEqual(self.texts(".message.assistant .content")[-1], second)
        self.assertOwnOrigin()
        self.assertEqual(self.faults(), [])

    def test_versions(self):
        self.open()
        self.asked(self.question)
        self.click(".message.assistant [aria-label=Regenerate]")
        self.until(lambda: "2/2" in self.texts(".branches span"), "a second answer")
        self.done()
        self.click("[aria-label='Previous version']")
        self.until(lambda: "1/2" in self.texts(".branches span"), "the first answer again")
        self.click(".message.user [aria-label=Edit]")
        field = self.one(".edit-form textarea")
        field.clear()
        field.send_keys("Another question", Keys.ENTER)
        self.until(lambda: self.texts(".bubble") == ["Another question"], "the edited message")
        self.done()
        self.assertEqual(self.texts(".branches span"), ["2/2"])
        self.click("[aria-label='Previous version']")
        self.until(lambda: self.texts(".bubble") == [self.question], "the message before the edit")
        self.assertIn("2/2", self.texts(".message.assistant .branches span"))
        self.assertEqual(self.faults(), [])

    def test_stop(self):
        self.open()
        self.send(self.lengthy)
        self.until(lambda: len(self.texts(".message.assistant .content")[-1]) > 20, "some text")
        self.assertEqual(self.js(UNNAMED), [])
        self.one("body").send_keys(Keys.ESCAPE)
        text = self.done()
        self.assertGreater(len(text), 20)
        self.assertIn("Stopped.", self.texts(".note")[-1])
        self.until(lambda: self.live() == 0, "the server has stopped too")
        self.driver.refresh()
        self.until(lambda: self.texts(".message.assistant .content") == [text], "the stopped answer after reloading")

    def test_heatmap(self):
        self.open()
        self.until(lambda: not self.one("#experts").get_attribute("hidden"), "the experts")
        self.click("#heat-marks")
        before = self.js(HEAT)
        self.send(self.lengthy)
        self.until(lambda: self.js(HEAT) != before, "the heat-map moves")
        if self.lasts:
            self.until(lambda: float(self.texts("#speed-now")[0].replace(",", "")) > 0, "tokens per second")
            self.click("#stop")
        self.done()
        self.assertRegex(self.texts("#answer-facts dd")[0], r"^[1-9][\d,]* tokens$")
        self.js("document.querySelector('#heat-table').open = true")
        self.until(lambda: len(self.all("#heat-table tbody tr")) == self.layers, "a row for each layer")
        self.one("#heatmap").send_keys(Keys.ARROW_RIGHT)
        self.assertRegex(self.texts(".readout")[0], r"^Layer 0, expert 0: [\d,]+ uses .*misses, (in memory|on disk)$")
        self.assertGreater(len(self.texts("#memory-legend li")), 5)
        self.assertEqual(self.faults(), [])

    def live(self):
        return self.js("""const key = sessionStorage.getItem("sluice-key") ?? "";
            const reply = await fetch("/stats", {headers: {Authorization: "Bearer " + key}});
            return (await reply.json()).requests.live""")


class WithMock(Anywhere, Page):
    question, lengthy = "Tell me a story", "Count slowly"
    layers, lasts = 24, True

    def setUp(self):
        self.mock = Mock()
        self.address = self.mock.address

    def tearDown(self):
        self.assertEqual(self.mock.foreign, [])
        self.driver.get("about:blank")
        self.mock.shutdown()
        self.mock.server_close()

    def test_text_streams(self):
        self.open()
        self.send("Count slowly")
        text = self.until(lambda: self.texts(".message.assistant .content")[-1], "the first words")
        self.assertLess(len(text), 20000)
        longer = self.until(lambda: len(self.texts(".message.assistant .content")[-1]) > len(text), "more words")
        self.assertTrue(longer)
        self.driver.refresh()
        self.until(lambda: self.texts(".message.assistant .content") and
                   self.texts(".message.assistant .content")[-1].startswith("word0 word1"), "the partial answer after reloading")
        self.until(lambda: self.mock.stopped == 1, "the server saw that its reader went away")

    def test_request(self):
        self.open()
        self.click("#settings-open")
        for name, value in {"system": "Be brief.", "temperature": "0.25", "top_k": "7", "seed": "5", "max_tokens": "99",
                            "stop": "END\nFIN", "schema": '{"type": "object"}', "tools": '[{"name": "weather", "parameters": {}}]'}.items():
            self.one(f"#set-{name}").send_keys(value)
        self.js("document.querySelector('#set-thinking').value = 'off'")
        self.click("#settings .primary")
        self.asked("Hello")
        body = self.mock.bodies[-1]
        self.assertEqual(body["messages"], [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])
        self.assertEqual({name: body[name] for name in ("temperature", "top_k", "seed", "max_tokens", "stop", "stream")},
                         {"temperature": 0.25, "top_k": 7, "seed": 5, "max_tokens": 99, "stop": ["END", "FIN"], "stream": True})
        self.assertEqual(body["stream_options"], {"include_usage": True})
        self.assertEqual(body["chat_template_kwargs"], {"enable_thinking": False})
        self.assertEqual(body["response_format"]["json_schema"]["schema"], {"type": "object"})
        self.assertEqual(body["tools"], [{"type": "function", "function": {"name": "weather", "parameters": {}}}])
        self.assertNotIn("top_p", body)
        self.click("#new")
        self.asked("Again")
        self.assertEqual(self.mock.bodies[-1]["temperature"], 0.25, "also for new conversations")

    def test_settings_are_checked(self):
        self.open()
        self.click("#settings-open")
        self.one("#set-schema").send_keys("{no")
        self.click("#settings .primary")
        self.assertTrue(self.all("#settings[open]"), "a malformed schema is not saved")
        self.assertIn("not JSON", self.texts("#fault-schema")[0])

    def test_presets(self):
        self.open()
        self.click("#settings-open")
        self.one("#set-temperature").send_keys("0.33")
        self.one("#set-system").send_keys("A preset")
        self.click("#preset-save")
        self.until(lambda: self.all("#question-text"), "the question for a name")
        self.one("#question-text").send_keys("mine", Keys.ENTER)
        self.until(lambda: "mine" in self.texts("#preset option"), "the preset in the list")
        self.click("#settings-cancel")
        self.driver.refresh()
        self.until(lambda: self.js("return document.body.dataset.ready"), "the page")
        self.click("#settings-open")
        self.js("const list = arguments[0]; list.value = 'own:mine'; list.dispatchEvent(new Event('change'))", self.one("#preset"))
        self.assertEqual(self.one("#set-temperature").get_attribute("value"), "0.33")
        self.assertEqual(self.one("#set-system").get_attribute("value"), "A preset")

    def test_thinking(self):
        self.open()
        self.send("think about it")
        self.done()
        self.assertIn("Thought for", self.texts(".thinking summary")[0])
        self.assertFalse(self.one(".thinking").get_attribute("open"))
        self.click(".thinking summary")
        self.until(lambda: "I should think" in self.texts(".thinking .markdown")[0], "the thoughts")
        self.asked("more")
        self.assertIn("I should think", self.mock.bodies[-1]["messages"][1]["reasoning_content"])

    def test_tools(self):
        self.open()
        self.asked("use a tool")
        self.assertEqual(self.texts(".call code"), ["weather", "clock"])
        self.assertEqual(self.texts(".call pre")[0], '{\n  "city": "Oslo",\n  "days": 2\n}')
        fields = self.all(".results textarea")
        fields[0].send_keys("rain")
        fields[1].send_keys("noon")
        self.click(".results button")
        self.until(lambda: "The tools said: rain, noon." in self.texts(".message.assistant .content")[-1], "the answer with the results")
        self.done()
        sent = self.mock.bodies[-1]["messages"]
        self.assertEqual([message["role"] for message in sent], ["user", "assistant", "tool", "tool"])
        self.assertEqual(sent[1]["tool_calls"][0]["function"], {"name": "weather", "arguments": '{"city": "Oslo", "days": 2}'})
        self.assertEqual([message["tool_call_id"] for message in sent[2:]], ["call0", "call1"])
        self.assertEqual(self.all(".results"), [], "nothing is open any more")

    def test_hostile_text(self):
        self.open()
        self.asked("be hostile")
        self.assertIsNone(self.js("return window.hacked ?? null"))
        self.assertEqual(self.all(".markdown script, .markdown img"), [])
        self.assertIn("<script>window.hacked = 1</script>", self.texts(".markdown p")[0])
        self.assertEqual(self.js("return [...document.querySelectorAll('.markdown a')].map((a) => a.protocol)"), ["https:"])
        self.asked("<b>bold</b> <script>window.hacked = 1</script>")
        self.assertIsNone(self.js("return window.hacked ?? null"))
        self.assertOwnOrigin()

    def test_skip_link(self):
        self.open()
        self.asked("Hello")
        address = self.driver.current_url
        self.js("document.querySelector('.skip').focus()")
        self.driver.switch_to.active_element.send_keys(Keys.ENTER)
        self.until(lambda: self.js("return document.activeElement.id") == "composer-text", "the focus in the message")
        self.assertEqual(len(self.all(".message")), 2, "the conversation is still there")
        self.assertEqual(self.driver.current_url, address)

    def test_keys_without_a_name(self):
        self.open()
        self.js("document.dispatchEvent(new Event('keydown', {bubbles: true}))")  # as when a browser fills in a field
        self.assertEqual(self.faults(), [])

    def test_random_markdown_makes_known_elements_only(self):
        self.open()
        found = self.driver.execute_async_script(RANDOM_MARKDOWN, 3000)
        self.assertEqual(found["strange"], [])
        self.assertGreater(found["elements"], 10000)
        self.assertIsNone(self.js("return window.hacked ?? null"))
        self.assertOwnOrigin()

    def test_errors(self):
        self.open()
        self.send("be busy")
        self.until(lambda: self.all(".note .error"), "an error")
        self.assertIn("The server is busy. It says: the queue is full. Try again in 2 s.", self.texts(".note .error span")[0])
        asked = len(self.mock.bodies)
        self.click(".note .error button")
        self.until(lambda: len(self.mock.bodies) == asked + 1, "another request")
        self.until(lambda: len(self.all(".message.assistant")) == 1 and self.all(".note .error"), "one answer, the new one")
        self.click("#new")
        self.asked("drop the connection")
        self.assertIn("This is only the beginning", self.texts(".message.assistant .content")[-1])
        self.assertIn("What had arrived is kept.", self.texts(".note .error span")[-1])
        self.click("#new")
        self.asked("broken disk")
        self.assertIn("Some text", self.texts(".message.assistant .content")[-1])
        self.assertIn("the disk cannot be read", self.texts(".note .error span")[-1])

    def test_full_storage(self):
        self.open()
        self.js("IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }")
        self.assertIn("Answer", self.asked("Hello"), "the conversation goes on")
        self.assertIn("The browser's storage is full", self.texts("#banner span")[0])

    def test_goes_on_in_the_background(self):
        self.open()
        self.send("Count slowly")
        self.until(lambda: self.texts(".content")[-1], "the first words")
        self.click("#new")
        self.assertIn("to: Hello", self.asked("Hello"))
        self.assertEqual(self.js("return document.querySelectorAll('.live-dot').length"), 1)
        self.js("document.querySelectorAll('.item')[1].click()")
        text = self.until(lambda: self.texts(".content")[-1].startswith("word0") and self.texts(".content")[-1], "the other answer")
        self.until(lambda: len(self.texts(".content")[-1]) > len(text), "more of it")
        self.click("#stop")
        self.done()
        self.until(lambda: not self.all(".live-dot"), "nothing is being answered")

    def test_closed_panel(self):
        self.open()
        self.until(lambda: self.mock.paths.count("/stats/experts") > 0, "the experts")
        self.click("#panel-toggle")
        self.asked("Hello")
        time.sleep(1)
        count = len(self.mock.paths)
        self.asked("Why is the sky blue?")
        self.assertEqual(self.mock.paths[count:].count("/stats"), 1, "asked once, where the answer begins")
        used = sum(self.mock.experts.uses)
        self.click("#panel-toggle")
        self.js("document.querySelector('#heat-table').open = true")
        total = "return [...document.querySelectorAll('#heat-table tbody tr')].reduce((sum, row) => sum + Number(row.cells[1].textContent.replace(',', '')), 0)"
        self.until(lambda: 0 < self.js(total) < used, "the uses since the last answer began")

    def test_unreachable(self):
        self.open()
        self.mock.shutdown()
        self.mock.server_close()
        self.send("Hello")
        self.until(lambda: "The server cannot be reached." in "".join(self.texts(".note .error span")), "an error in words")
        self.until(lambda: "Unreachable" in self.texts("#state")[0], "the state")
        self.mock = Mock(int(self.address.rsplit(":", 1)[1]))
        self.click(".note .error button")
        self.until(lambda: "to: Hello" in self.texts(".message.assistant .content")[-1], "the answer after a retry")
        self.done()

    def test_key(self):
        self.mock.key = "right"
        self.open()
        self.until(lambda: self.all("#key-dialog[open]"), "the question for a key")
        self.one("#key").send_keys("wrong", Keys.ENTER)
        self.until(lambda: "did not accept" in self.texts("#key-fault")[0] and self.all("#key-dialog[open]"), "an error")
        self.one("#key").send_keys("right", Keys.ENTER)
        self.until(lambda: self.texts("#model-name")[0], "the model")
        self.assertIn("Answer", self.asked("Hello"))
        self.assertIsNone(self.js("return localStorage.getItem('sluice-key')"))
        self.mock.key = "new"
        self.send("Hello again")
        self.until(lambda: self.all("#key-dialog[open]"), "the question for the new key")
        self.click("input[value=browser]")
        self.one("#key").send_keys("new", Keys.ENTER)
        self.until(lambda: "to: Hello again" in self.texts(".message.assistant .content")[-1], "the answer after a retry")
        self.done()
        self.assertEqual(self.js("return localStorage.getItem('sluice-key')"), "new")

    def test_prefill(self):
        self.open()
        self.send("a long prompt")
        shown = self.until(lambda: re.search(r"Reading the prompt: ([\d,]+) of 4,000 tokens, 1,000 reused", "".join(self.texts(".status"))), "progress")
        self.assertGreater(int(shown.group(1).replace(",", "")), 0)
        self.until(lambda: "of 4,000 tokens" in self.texts("#prefill span")[0], "progress in the panel")
        self.assertIn("Done.", self.done())

    def test_fork_delete_rename_search(self):
        self.open()
        self.asked("First message")
        self.asked("Second message")
        self.click(".message.assistant [aria-label^=Fork]")
        self.until(lambda: self.texts(".item") == ["First message (fork)", "First message"], "the fork")
        self.assertEqual(len(self.all(".message")), 2)
        self.click("li.current .icon-button")
        self.all("[role=menuitem]")[0].click()
        field = self.until(lambda: self.one("#question-text"), "the question for a title")
        field.clear()
        field.send_keys("Renamed", Keys.ENTER)
        self.until(lambda: "Renamed" in self.texts(".item"), "the new title")
        self.one("body").send_keys(Keys.CONTROL, "k")
        self.assertEqual(self.js("return document.activeElement.id"), "search")
        self.one("#search").send_keys("second MESSAGE")
        self.until(lambda: self.texts(".item") == ["First message"], "what the search finds")
        self.one("#search").send_keys(Keys.ENTER)
        self.until(lambda: len(self.all(".message")) == 4, "the conversation that was found")
        self.click(".message:last-child [aria-label^=Delete]")
        self.confirm()
        self.until(lambda: len(self.all(".message")) == 3, "one message fewer")
        self.one("#search").clear()
        self.one("#search").send_keys(" ")
        self.click("li.current .icon-button")
        self.all("[role=menuitem]")[-1].click()
        self.confirm()
        self.until(lambda: self.texts(".item") == ["Renamed"], "the other conversation is left")
        self.assertEqual(self.faults(), [])

    def test_export_import(self):
        self.open()
        self.asked("think about it")
        self.asked("use a tool")
        self.click("#export")
        path = pathlib.Path(self.folder, "sluice-conversations.json")
        self.until(path.exists, "the file")
        texts = self.texts(".message")
        conversations = json.loads(path.read_text())["conversations"]
        self.assertEqual(len(conversations[0]["messages"]), 4)
        self.click("li.current .icon-button")
        self.all("[role=menuitem]")[2].click()
        markdown = pathlib.Path(self.folder, "think-about-it.md")
        self.until(markdown.exists, "the Markdown file")
        self.assertIn("## User\n\nuse a tool\n\n## Assistant\n\nCall of weather:", markdown.read_text())
        self.tearDown()
        self.setUp()  # another origin, which has stored nothing
        self.open()
        self.one("#import-file").send_keys(str(path))
        self.until(lambda: len(self.all(".message")) == 4, "the imported conversation")
        self.assertEqual([text[:40] for text in self.texts(".message")], [text[:40] for text in texts])
        path.write_text('{"format": "sluice-conversations", "version": 1, "conversations": [{"messages": [{"role": "user"}]}]}')
        self.one("#import-file").send_keys(str(path))
        self.until(lambda: "cannot be imported: a message has no role or content" in self.texts("#banner span")[0], "what is wrong")
        path.write_text(json.dumps({"format": "sluice-conversations", "version": 1, "conversations": [
            {"title": "Odd", "settings": {"schema": "{no", "temperature": "hot"}, "messages": []}]}))
        self.one("#import-file").send_keys(str(path))
        self.until(lambda: self.texts("#title") == ["Odd"], "the conversation with odd settings")
        self.asked("Hello")
        self.assertIn("The request could not be made", self.texts(".note .error span")[0])
        path.unlink()

    def test_two_tabs(self):
        self.open()
        self.asked("First message")
        first, url = self.driver.current_window_handle, self.driver.current_url
        self.driver.switch_to.new_window("tab")
        self.driver.get(url)
        self.until(lambda: len(self.all(".message")) == 2, "the conversation in the second tab")
        self.asked("From the second tab")
        self.driver.close()
        self.driver.switch_to.window(first)
        self.until(lambda: len(self.all(".message")) == 4, "the first tab shows what the second added")

    def test_keyboard(self):
        self.open()
        field = self.one("#composer-text")
        field.send_keys("one", Keys.SHIFT, Keys.ENTER)
        field.send_keys(Keys.NULL, "two", Keys.ENTER)
        self.done()
        self.assertEqual(self.texts(".bubble"), ["one\ntwo"])
        self.one("#composer-text").send_keys(Keys.ARROW_UP)
        self.until(lambda: self.all(".edit-form textarea"), "the last message is edited")
        self.one(".edit-form textarea").send_keys(Keys.ESCAPE)
        self.assertEqual(self.all(".edit-form"), [])
        self.js("document.activeElement.blur()")
        self.one("body").send_keys("?")
        self.assertTrue(self.all("#help[open]"))
        self.one("body").send_keys(Keys.ESCAPE)
        self.until(lambda: not self.all("#help[open]"), "the help is closed")
        self.one("body").send_keys(Keys.ALT, "n")
        self.until(lambda: not self.all(".message"), "a new conversation")

    def size(self, width, height, mobile=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def test_phone(self):
        self.size(375, 700, True)
        try:
            self.open()
            self.asked("Why is the sky blue?")
            self.asked("hostile " + "x" * 300)
            wide = "return document.documentElement.scrollWidth + ' ' + document.querySelector('#scroller').scrollWidth"
            self.assertEqual(self.js(wide), "375 375", "nothing is wider than the screen")
            for name in ("list", "panel"):
                self.assertFalse(self.one(f"#{name}").is_displayed())
                self.one(f"#{name}-toggle").click()
                self.until(lambda: self.one(f"#{name}").is_displayed(), f"the {name}")
                box = self.one(f"#{name}").rect
                self.assertTrue(box["x"] >= 0 and box["x"] + box["width"] <= 375, box)
                self.assertTrue(self.js(f"return document.querySelector('#{name}').contains(document.activeElement)"))
                self.one("body").send_keys(Keys.ESCAPE)
                self.until(lambda: not self.one(f"#{name}").is_displayed(), f"the {name} is closed")
                self.assertEqual(self.js("return document.activeElement.id"), f"{name}-toggle")
            self.one("#settings-open").click()
            box = self.one("#settings").rect
            self.assertTrue(box["x"] >= 0 and box["x"] + box["width"] <= 375, box)
        finally:
            self.size(1400, 900)

    def test_names_and_contrast(self):
        self.open()
        self.asked("Why is the sky blue?")
        self.asked("use a tool")
        self.asked("be busy")
        states = {"page": "", "settings": "#settings-open", "help": "#help-open", "map": "#heat-enlarge"}
        for theme in ("light", "dark"):
            self.js("sluiceTheme.set(arguments[0])", theme)
            for state, button in states.items():
                with self.subTest(theme=theme, state=state):
                    if button:
                        self.click(button)
                    self.js("document.querySelectorAll('*').forEach((node) => node.getAnimations?.().forEach((a) => a.finish()))")
                    self.assertEqual(self.js(UNNAMED), [])
                    count, faint = self.js(FAINT)
                    self.assertGreater(count, 30)
                    self.assertEqual(faint, [])
                    self.assertEqual(self.axe(), [])
                    self.js("document.querySelector('dialog[open]')?.close()")
        self.assertEqual(self.faults(), [])

    def axe(self):
        """What the rules of axe-core find; [] without it."""
        path = os.environ.get("SLUICE_AXE")
        if not path:
            return []
        self.js(pathlib.Path(path).read_text())
        return self.driver.execute_async_script("""const done = arguments[0];
            axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => done(violations.map(({id, nodes}) =>
                id + ": " + nodes.map(({html}) => html.slice(0, 120)).join(" | "))))""")

    def test_theme_follows_the_system(self):
        shade = "return [document.documentElement.dataset.shade, getComputedStyle(document.body).backgroundColor]"
        self.open()
        seen = {}
        for wanted in ("light", "dark"):
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": wanted}]})
            self.until(lambda: self.js(shade)[0] == wanted, wanted)
            seen[wanted] = self.js(shade)[1]
        self.assertNotEqual(seen["light"], seen["dark"])
        self.click("#theme")
        self.assertEqual(self.js(shade), ["light", seen["light"]], "what the user chose comes before the system")
        self.driver.refresh()
        self.assertEqual(self.js(shade), ["light", seen["light"]], "and is kept")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_hidden_page_asks_nothing(self):
        self.open()
        self.until(lambda: self.mock.paths.count("/stats") > 2, "statistics")
        self.driver.switch_to.new_window("tab")
        time.sleep(1)
        count = len(self.mock.paths)
        time.sleep(2.5)
        self.assertEqual(len(self.mock.paths), count)
        self.driver.close()
        self.driver.switch_to.window(self.driver.window_handles[0])
        self.until(lambda: len(self.mock.paths) > count, "statistics again")

    def test_live_region(self):
        self.open()
        self.asked("Why is the sky blue?")
        self.until(lambda: "The answer is complete." in self.texts("#live p"), "the end is said")
        self.assertLess(len(self.texts("#live p")), 9)


@unittest.skipUnless(PROGRAM, "no $SLUICE_PROGRAM")
class WithProgram(Anywhere, Page):
    question, lengthy = "Tell me a story about a brave fox.", "Tell me a story about a brave fox."
    layers, lasts = 8, False

    @classmethod
    def setUpClass(cls):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cls.address = f"http://127.0.0.1:{port}"
        cls.server = subprocess.Popen([PROGRAM, "serve", "-m", "models/fable", "--budget", "25%", "--port", str(port)],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and cls.server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        if cls.server.poll() is not None:
            message = cls.server.stderr.read().decode().strip()
            cls.server.stderr.close()
            if "there is no command 'serve'" in message or "built without" in message:
                raise unittest.SkipTest(f"the program does not serve: {message}")
            raise AssertionError(f"the server ended: {message}")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.server.terminate()
        cls.server.wait(20)
        cls.server.stderr.close()

    def setUp(self):
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.address, "storageTypes": "all"})


if __name__ == "__main__":
    absent = missing()
    if absent:
        print(f"page_test: skipped: no {absent}")
        sys.exit(0)
    unittest.main()
