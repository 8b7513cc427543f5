/* highlight.js - Light colouring of code: comments, strings, numbers and keywords, by family of languages. */

const LONGEST = 100000; /* characters; longer code is left plain */

const words = (text) => new Set(text.split(" "));
const KEYWORDS = {
    c: words("abstract alignas as async auto await bool boolean break byte case catch char class const constexpr " +
        "continue crate def default defer delete do double dyn else enum export extends extern false final finally " +
        "float fn for from func function go goto if impl implements import in inline instanceof int int32_t int64_t " +
        "interface let long loop match mod module move mut namespace new nil null nullptr of operator override " +
        "package private protected pub public range register return self short signed size_t sizeof static string " +
        "struct super switch template this throw throws trait true try type typedef typename typeof uint32_t " +
        "uint64_t uint8_t undefined union unsafe unsigned use using val var virtual void volatile when where while yield"),
    hash: words("False None True alias and as assert async await begin break case class continue def del do done echo " +
        "elif else elsif end ensure esac except exit export false fi finally for from function global if import in " +
        "is lambda local match module nil nonlocal not null or pass raise rescue return self set then true try unless " +
        "until while with yield"),
    dash: words("add all alter and as asc between by case column create cross data default delete desc distinct do drop " +
        "else elseif end exists false for foreign from full function group having if in index inner insert into is " +
        "join key left let like limit local module nil not null of offset on or order outer over partition primary " +
        "references repeat return right select set table then true type union unique until update using values view " +
        "when where while with"),
    json: words("true false null"),
};

const NUMBER = "\\b\\d[\\w.]*";
const STRING = "\"[^\"\\\\\\n]*(?:\\\\[^][^\"\\\\\\n]*)*\"?|'[^'\\\\\\n]*(?:\\\\[^][^'\\\\\\n]*)*'?";
const WORD = "[A-Za-z_$][\\w$]*";
/* One expression each, with the groups comment, string, number, word. */
const family = (comment, string, keywords, fold = false) => ({
    pattern: new RegExp(`(${comment})|(${string})|(${NUMBER})|(${WORD})`, "g"),
    keywords,
    fold, /* keywords in any case */
});
const C = family("//[^\\n]*|/\\*[^]*?(?:\\*/|$)", STRING + "|`[^`\\\\]*(?:\\\\[^][^`\\\\]*)*`?", KEYWORDS.c);
const HASH = family("#[^\\n]*", `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|` + STRING, KEYWORDS.hash);
const DASH = family("--[^\\n]*|/\\*[^]*?(?:\\*/|$)", STRING, KEYWORDS.dash, true);
const JSON_FAMILY = family("//[^\\n]*", STRING, KEYWORDS.json);
const MARKUP = { pattern: /(<!--[^]*?(?:-->|$))|("[^"<>]*"|'[^'<>]*')|(&#?\w+;)|(<\/?[A-Za-z][\w:-]*|\/?>)/g, keywords: null };

const LANGUAGES = new Map([
    ["c h cpp c++ cc hpp cuda cu java js javascript jsx mjs ts typescript tsx go rust rs kotlin kt swift cs csharp " +
        "php dart scala zig css scss glsl proto objc", C],
    ["python py sh bash shell zsh console ruby rb perl pl r yaml yml toml ini make makefile cmake dockerfile " +
        "elixir julia nix powershell awk", HASH],
    ["sql lua haskell hs ada vhdl", DASH],
    ["json json5 jsonl", JSON_FAMILY],
    ["html xml svg vue markup", MARKUP],
].flatMap(([names, rules]) => names.split(" ").map((name) => [name, rules])));

const DIFF = { "+": "string", "-": "removed", "@": "keyword" };

function diffLines(text) {
    return text.split(/(?<=\n)/).map((line) => [DIFF[line[0]] ?? "", line]);
}

/* The text in pieces [kind, text]; kind "" is plain. */
export function highlight(text, language) {
    const name = language.toLowerCase();
    if (text.length > LONGEST) return [["", text]];
    if (name === "diff" || name === "patch") return diffLines(text);
    const rules = LANGUAGES.get(name);
    if (!rules) return [["", text]];
    const pieces = [];
    let plain = 0;
    for (const match of text.matchAll(rules.pattern)) {
        const [whole, comment, string, number] = match;
        let kind = comment ? "comment" : string ? "string" : number ? "number" : "keyword";
        if (kind === "keyword" && rules.keywords && !rules.keywords.has(rules.fold ? whole.toLowerCase() : whole)) continue;
        if (match.index > plain) pieces.push(["", text.slice(plain, match.index)]);
        pieces.push([kind, whole]);
        plain = match.index + whole.length;
    }
    if (plain < text.length) pieces.push(["", text.slice(plain)]);
    return pieces;
}
