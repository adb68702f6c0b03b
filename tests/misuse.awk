# awk -f misuse.awk include/detent/*.h : writes a C function for every function of the public headers,
# which calls it with arguments of the test (tests/misuse.h); and a table of these.
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# The last word of a parameter is its name.
function name_of(p) { sub(/\[.*$/, "", p); sub(/^.*[^A-Za-z0-9_]/, "", p); return p }

function type_of(p, name,    stars)
{
    stars = p ~ /\[/ ? "*" : ""
    sub(/\[.*$/, "", p)
    return trim(substr(p, 1, length(p) - length(name))) stars
}

function base_of(type) { gsub(/const|\*/, "", type); return trim(type) }

function argument(type, k,    base, depth, copy)
{
    base = base_of(type)
    copy = type
    depth = gsub(/\*/, "", copy)
    if (depth > 0) { kinds = kinds (base == "dt_tensor" && depth == 1 ? "t" : "p")
        return sprintf("(%s)misuse_pointer(m, %d, \"%s\", %d)", type, k, base, depth) }
    if (base in callback) { kinds = kinds "p"
        return sprintf("misuse_is_null(m, %d) ? NULL : good_%s", k, base) }
    if (base in enumeration || base ~ /^(int|int32_t|int64_t|uint64_t|size_t)$/) {
        kinds = kinds "i"
        return sprintf("(%s)misuse_integer(m, %d)", type, k) }
    if (base == "double" || base == "float") { kinds = kinds "d"
        return sprintf("(%s)misuse_real(m, %d)", type, k) }
    kinds = kinds "-"
    return base == "bool" ? "true" : sprintf("(%s){ 0 }", type)
}

function emit(text,    head, result, name, list, n, i, parts, names, call, base)
{
    sub(/^ *DT_API */, "", text)
    gsub(/DT_PRINTF\([^)]*\)/, "", text)
    sub(/void \(\*drop\)\([^)]*\)/, "dt_drop_user drop", text)
    head = substr(text, 1, index(text, "(") - 1)
    list = substr(text, index(text, "(") + 1)
    sub(/\).*$/, "", list)
    name = name_of(head)
    result = type_of(head, name)
    n = split(list, parts, ",")
    if (trim(list) == "void") n = 0
    if (n == 0 && name ~ /_defaults$/) {
        if (!(result in defaults)) {
            defaults[result] = 1
            printf "static void good_%s(void *to)\n{\n    const %s good = %s();\n" \
                   "    memcpy(to, &good, sizeof good);\n}\n\n", result, result, name
            good = good "    { \"" result "\", good_" result " },\n"
        }
        return
    }
    kinds = names = call = ""
    for (i = 1; i <= n; i++) {
        parts[i] = trim(parts[i])
        if (parts[i] == "...") { call = call ", 0"; continue } # clang warns of a format alone
        names = names (i > 1 ? "," : "") name_of(parts[i])
        call = call (i > 1 ? ", " : "") argument(type_of(parts[i], name_of(parts[i])), i - 1)
    }
    printf "static void call_%s(misuse *m)\n{\n    (void)m;\n", name
    if (result == "dt_status") printf "    m->status = %s(%s);\n", name, call
    else if (result ~ /\*/) printf "    m->returned = %s(%s);\n", name, call
    else printf "    (void)%s(%s);\n", name, call
    print "}\n"
    base = result == "dt_status" ? "s" : result ~ /\*/ ? "p" : "-"
    table = table sprintf("    { \"%s\", call_%s, \"%s\", \"%s\", '%s' },\n", name, name, kinds,
                          names, base)
}

{ line = $0 }
comment { if (!index(line, "*/")) next; sub(/^.*\*\//, "", line); comment = 0 }
{ while (match(line, /\/\*([^*]|\*[^\/])*\*\//)) line = substr(line, 1, RSTART - 1) \
      substr(line, RSTART + RLENGTH) }
index(line, "/*") { sub(/\/\*.*$/, "", line); comment = 1 }
line ~ /^typedef enum/ { split(line, words, " "); enumeration[words[3]] = 1 }
line ~ /^typedef .*\(\*dt_/ { split(line, words, /[(*)]+/)
    for (w in words) if (words[w] ~ /^dt_[a-z_]+$/) callback[words[w]] = 1 }
line ~ /^DT_API/ { prototype = "" ; open = 1 }
open { prototype = prototype " " line }
open && line ~ /;/ { open = 0; prototypes[++count] = prototype }

END {
    callback["dt_drop_user"] = 1
    print "/* Written by misuse.awk. */"
    for (i = 1; i <= count; i++) emit(prototypes[i])
    printf "const misuse_good misuse_defaults[] = {\n%s    { NULL, NULL },\n};\n\n", good
    printf "const misuse_call misuse_calls[] = {\n%s    { NULL },\n};\n", table
}
