# Reads a JSON array of {src, tokens} and writes one of {error, dump, tokens}: what CPython makes of each source.
import ast, hashlib, io, json, sys, tokenize

if not (3, 11) <= sys.version_info < (3, 14):
    sys.exit(3)


def without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                del node.body[0]
    return tree


def tokens(src):
    lines = io.StringIO(src, newline="\n").readlines()
    out, depth, begin = [], 0, None
    for tok in tokenize.generate_tokens(iter(lines + [""]).__next__):
        kind = tokenize.tok_name[tok.type]
        text, (row, col) = tok.string, tok.start
        if kind == "FSTRING_START":
            if depth == 0:
                begin = tok.start
            depth += 1
        if kind == "FSTRING_END":
            depth -= 1
            if depth == 0:
                (r0, c0), (r1, c1) = begin, tok.end
                part = lines[r0 - 1:r1]
                part[-1] = part[-1][:c1]
                part[0] = part[0][c0:]
                out.append(["STRING", "".join(part), r0, c0])
            continue
        if depth or kind in ("ENCODING", "ENDMARKER") or kind in ("NEWLINE", "NL") and not text:
            continue
        if kind == "INDENT":
            text = ""
        if kind == "DEDENT" and row > len(lines):
            row = col = 0
        out.append([kind, text, row, col])
    return out


answers = []
for question in json.load(sys.stdin):
    src = question["src"]
    answer = {"error": "", "dump": "", "tokens": []}
    try:
        tree = ast.parse(src.removeprefix("\ufeff"))
        answer["dump"] = hashlib.sha1(ast.dump(without_docstrings(tree)).encode("utf-8", "backslashreplace")).hexdigest()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        answer["error"] = f"{type(e).__name__}: {e}" or "error"
    if question["tokens"] and not answer["error"]:
        try:
            answer["tokens"] = tokens(src)
        except (tokenize.TokenError, SyntaxError) as e:
            answer["tokens"] = [["ERROR", str(e), 0, 0]]
    answers.append(answer)
json.dump(answers, sys.stdout)
