#!/usr/bin/env bash
# delvewheel 1.13.2 (PyPI), on the Windows wheel of bitsandbytes 0.50.2 (PyPI).
# Expected: like auditwheel, it looks at each library of the wheel, and names the DLLs of ROCm that the wheel lacks.
# Seen: it looks at extension modules (.pyd) only. The libraries for HIP are DLLs that Python loads by ctypes, so the wheel "needs no
# external dependencies" and passes. --analyze-existing makes it look. Then `show` names them, and `repair` ends with a traceback.
. "$(dirname "$0")/common.sh"
recorded <<'END'
repair: exit code 0, no external dependencies are needed
show: amdhip64_7.dll is not named
show --analyze-existing: amdhip64_7.dll (Error: Not Found)
repair --analyze-existing: exit code 1, FileNotFoundError
END
venv "$work/venv" delvewheel==1.13.2
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform win_amd64 --dest "$work/wheels" bitsandbytes==0.50.2 >&2 ||
    unavailable "pip cannot download bitsandbytes 0.50.2"
delvewheel() { # COMMAND OPTION…: its messages in $work/messages, its exit code in $code
    code=0
    "$work/venv/bin/delvewheel" "$@" "$work"/wheels/*.whl >"$work/messages" 2>&1 || code=$?
}
{
    delvewheel repair --wheel-dir "$work/repaired"
    echo "repair: exit code $code, $(grep -o 'no external dependencies are needed' "$work/messages" || echo "other messages")"
    delvewheel show
    echo "show: $(grep -o 'amdhip64_7.dll.*' "$work/messages" || echo "amdhip64_7.dll is not named")"
    delvewheel show --analyze-existing
    echo "show --analyze-existing: $(grep -o 'amdhip64_7.dll.*' "$work/messages" || echo "amdhip64_7.dll is not named")"
    delvewheel repair --analyze-existing --wheel-dir "$work/repaired"
    echo "repair --analyze-existing: exit code $code, $(grep -o '^[A-Za-z]*Error' "$work/messages" || echo "no traceback")"
} >"$work/out"
compare "$work/out"
