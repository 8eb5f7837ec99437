"""AMD's own libraries that look up code objects (scripts/fetch-oracles). Each is asked in a process of its own."""
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

FETCH = Path(__file__).resolve().parent.parent / 'fetch-oracles'
SEARCHED = 4096  # bytes of a bundle that HIP passes to COMGR


class Oracle:
    """A library in a process of its own: two versions of LLVM do not fit into one."""

    def __init__(self, kind, version, path):
        self.kind, self.name = kind, f'{kind} {version}'
        command = [sys.executable, __file__, kind, path]
        libraries = os.pathsep.join([str(Path(path).parent), os.environ.get('LD_LIBRARY_PATH', '')]).rstrip(os.pathsep)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, 'LD_LIBRARY_PATH': libraries})
        if self.process.stdout.readline() != 'ready\n':
            sys.exit(f'{self.name}: {path} cannot be loaded')

    def ask(self, *question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f'{self.name}: ended at {question}')
        return json.loads(answer)

    def look_up(self, beginning, isa):
        """Offset and size of the code that COMGR finds in a bundle for one ISA, or None."""
        return self.ask(bytes(beginning[:SEARCHED]).ljust(SEARCHED, b'\0').hex(), isa)

    def load(self, library, marker, index, isas):
        """What librocm_kpack loads for a wrapper: the code as hexadecimal digits, or None."""
        return self.ask(str(library), marker.hex(), index, isas)


def oracles(*kinds):
    """The libraries of these kinds that can be had."""
    lines = subprocess.run([FETCH], capture_output=True, text=True)
    sys.stderr.write(lines.stderr)
    found = [line.split(' ', 2) for line in lines.stdout.splitlines()]
    return [Oracle(*it) for it in found if it[0] in kinds]


class Info(ctypes.Structure):
    _fields_ = [('isa', ctypes.c_char_p), ('size', ctypes.c_size_t), ('offset', ctypes.c_uint64)]


class Data(ctypes.Structure):
    _fields_ = [('handle', ctypes.c_uint64)]


def comgr(path):
    library = ctypes.CDLL(path)
    library.amd_comgr_set_data.argtypes = [Data, ctypes.c_size_t, ctypes.c_char_p]
    library.amd_comgr_lookup_code_object.argtypes = [Data, ctypes.POINTER(Info), ctypes.c_size_t]
    library.amd_comgr_release_data.argtypes = [Data]

    def answer(beginning, isa):
        data, query = Data(), (Info * 1)(Info(isa.encode(), 0, 0))
        status = library.amd_comgr_create_data(16, ctypes.byref(data))  # AMD_COMGR_DATA_KIND_FATBIN
        status = status or library.amd_comgr_set_data(data, SEARCHED, bytes.fromhex(beginning))
        status = status or library.amd_comgr_lookup_code_object(data, query, 1)
        library.amd_comgr_release_data(data)
        return None if status or not query[0].size else [query[0].offset, query[0].size]

    return answer


def kpack(path):
    library, pointer = ctypes.CDLL(path), ctypes.c_void_p
    library.kpack_load_code_object.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32,
                                               ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t,
                                               ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_size_t)]
    library.kpack_free_code_object.argtypes = [pointer]
    cache = pointer()
    if library.kpack_cache_create(ctypes.byref(cache)):
        sys.exit('kpack_cache_create failed')

    def answer(binary, marker, index, isas):
        names = (ctypes.c_char_p * len(isas))(*map(str.encode, isas))
        data, size = pointer(), ctypes.c_size_t()
        if library.kpack_load_code_object(cache, bytes.fromhex(marker), binary.encode(), index, names, len(isas),
                                          ctypes.byref(data), ctypes.byref(size)):
            return None
        code = ctypes.string_at(data, size.value)
        library.kpack_free_code_object(data)
        return code.hex() or None

    return answer


def serve(kind, path):
    answer = {'comgr': comgr, 'kpack': kpack}[kind](path)
    # The libraries may print.
    replies = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    print('ready', file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), file=replies, flush=True)


if __name__ == '__main__':
    serve(*sys.argv[1:])
