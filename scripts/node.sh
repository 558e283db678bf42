#!/bin/sh
# node.sh VENV: makes sure that VENV/bin/node and VENV/bin/npm exist, so that every later step has one place to look.
# They pass on to the system's Node.js if it is new enough, else Node.js is installed from requirements/node.txt.
set -eu

venv=$1
# What Vite asks for.
new_enough='const [a, b] = process.versions.node.split(".").map(Number);
process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'

# Without the venv on the path: an earlier run must not be mistaken for the system's Node.js.
bin=$(cd "$venv/bin" && pwd)
PATH=$(printf %s "$PATH" | tr : '\n' | grep -vxF "$bin" | paste -sd: -)
node=$(command -v node || true)
npm=$(command -v npm || true)

if [ -n "$node" ] && [ -n "$npm" ] && "$node" -e "$new_enough" 2>/dev/null; then
    rm -f "$bin/node" "$bin/npm"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$node" >"$bin/node"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$npm" >"$bin/npm"
    chmod +x "$bin/node" "$bin/npm"
else
    exec "$(dirname "$0")/uv.sh" pip install --quiet --require-hashes --python "$bin/python" -r requirements/node.txt
fi
