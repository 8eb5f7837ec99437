#!/usr/bin/env bash
# uv 0.13.9 (PyPI), with rocm_agent_enumerator of rocminfo 5.2.3 (Debian 12), which names the GPUs that a file lists. uv runs offline, and says
# which indexes of PyTorch it asks.
# Expected: with --torch-backend auto, a machine with a GPU of AMD gets wheels for ROCm, or an error if there are none for its GPU.
# Seen: uv asks the indexes for ROCm and the one for the CPU. For a GPU that it does not know that is the only one, so PyTorch for the CPU is
# installed, without a word and with exit code 0; the same GPU in UV_AMD_GPU_ARCHITECTURE is an error. For gfx1150 and gfx1151 uv knows ROCm 7.2
# only, so a project that pins an older PyTorch finds it for the CPU. Of several GPUs uv takes the first of its own table, which is the
# oldest, whatever their order.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942: rocm7.2 rocm7.1 rocm7.0 rocm6.4 rocm6.3 rocm6.2.4 rocm6.2 rocm6.1 rocm6.0 cpu
gfx1151: rocm7.2 cpu
gfx1103: cpu
gfx1152: cpu
gfx1250: cpu
gfx1031: cpu
gfx1103 gfx1201: rocm7.2 rocm7.1 rocm7.0 rocm6.4 rocm6.3 rocm6.2.4 cpu
gfx1151 gfx906: rocm7.2 rocm7.1 rocm7.0 rocm6.4 rocm6.3 rocm6.2.4 rocm6.2 rocm6.1 rocm6.0 cpu
gfx906 gfx1151: rocm7.2 rocm7.1 rocm7.0 rocm6.4 rocm6.3 rocm6.2.4 rocm6.2 rocm6.1 rocm6.0 cpu
gfx1103 in UV_AMD_GPU_ARCHITECTURE: Unknown AMD GPU architecture
END
venv "$work/venv" uv==0.13.9
debs rocminfo=5.2.3-2
indexes() { # GPUS: the indexes that uv would ask for PyTorch, where rocm_agent_enumerator finds these GPUs
    tr ' ' '\n' <<<"$1" >"$work/gpus"
    echo torch | ROCM_TARGET_LST=$work/gpus PATH=$work/root/usr/bin:$PATH "$work/venv/bin/uv" pip compile --verbose --offline --torch-backend auto - 2>&1 |
        sed -n 's|.* request for: .*/\([^/]*\)/torch/$|\1|p' | sort --unique --version-sort --reverse | tr '\n' ' ' || true
}
{
    for gpus in gfx942 gfx1151 gfx1103 gfx1152 gfx1250 gfx1031 "gfx1103 gfx1201" "gfx1151 gfx906" "gfx906 gfx1151"; do
        found=$(indexes "$gpus")
        echo "$gpus: ${found% }"
    done
    echo torch | UV_AMD_GPU_ARCHITECTURE=gfx1103 "$work/venv/bin/uv" pip compile --offline --torch-backend auto - 2>"$work/error" || true
    echo "gfx1103 in UV_AMD_GPU_ARCHITECTURE: $(grep -o 'Unknown AMD GPU architecture' "$work/error")"
} >"$work/out"
compare "$work/out"
