"""AMD's own libraries that look up code objects (scripts/fetch-oracles). Each is asked in a process of its own."""
import ctypes
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

FETCH = Path(__file__).resolve().parent.parent / 'fetch-oracles'
SEARCHED = 4096  # bytes of a bundle that HIP passes to COMGR


class Oracle:
    """A library in a process of its own: two versions of LLVM do not fit into one."""

    def __init__(self, kind, version, path, variables=()):
        self.kind, self.name, self.path = kind, f'{kind} {version}', path
        command = [sys.executable, __file__, kind, path]
        libraries = os.pathsep.join([str(Path(path).parent), os.environ.get('LD_LIBRARY_PATH', '')]).rstrip(os.pathsep)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, 'AMD_COMGR_CACHE': '0', 'LD_LIBRARY_PATH': libraries, **dict(variables)})
        if self.process.stdout.readline() != 'ready\n':
            sys.exit(f'{self.name}: {path} cannot be loaded')

    def ask(self, *question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f'{self.name}: ended at {question}'[:2000])
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def look_up(self, beginning, isa):
        """Offset and size of the code that COMGR finds in a bundle for one ISA, or None."""
        return self.ask(bytes(beginning[:SEARCHED]).ljust(SEARCHED, b'\0').hex(), isa)

    def code(self, bundle, isa, is_packed):
        """The SHA-256 of the code that COMGR finds in a whole bundle for one ISA, by the call that HIP uses, or None."""
        if is_packed:
            return self.ask(bundle.hex(), isa, True)
        hit = self.look_up(bundle, isa)
        return hit and hashlib.sha256(bundle[hit[0]:sum(hit)]).hexdigest()

    def load(self, library, marker, index, isas):
        """What librocm_kpack loads for a wrapper: the code as hexadecimal digits, or None."""
        return self.ask(str(library), marker.hex(), index, isas)

    def digest(self, library, marker, index, isas):
        """The SHA-256 of that, or the number of the error."""
        return self.ask(str(library), marker.hex(), index, isas, True)


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
    size = ctypes.c_size_t
    library.amd_comgr_set_data.argtypes = [Data, size, ctypes.c_char_p]
    library.amd_comgr_lookup_code_object.argtypes = [Data, ctypes.POINTER(Info), size]
    for name in 'release_data', 'destroy_data_set', 'destroy_action_info':
        getattr(library, f'amd_comgr_{name}').argtypes = [Data]

    def look_up(beginning, isa):
        data, query = Data(), (Info * 1)(Info(isa.encode(), 0, 0))
        status = library.amd_comgr_create_data(16, ctypes.byref(data))  # AMD_COMGR_DATA_KIND_FATBIN
        status = status or library.amd_comgr_set_data(data, SEARCHED, beginning)
        status = status or library.amd_comgr_lookup_code_object(data, query, 1)
        library.amd_comgr_release_data(data)
        return None if status or not query[0].size else [query[0].offset, query[0].size]

    def unbundle(packed, isa):
        """By the action that HIP uses for compressed bundles."""
        data, given, results, info, count = Data(), Data(), Data(), Data(), size()
        ids = (ctypes.c_char_p * 1)(f'hipv4-{isa}'.encode())
        steps = [
            (library.amd_comgr_create_data, 20, ctypes.byref(data)),  # AMD_COMGR_DATA_KIND_OBJ_BUNDLE
            (library.amd_comgr_set_data, data, len(packed), packed),
            (library.amd_comgr_set_data_name, data, b'bundle.o'),
            *((library.amd_comgr_create_data_set, ctypes.byref(it)) for it in (given, results)),
            (library.amd_comgr_create_action_info, ctypes.byref(info)),
            (library.amd_comgr_data_set_add, given, data),
            (library.amd_comgr_action_info_set_bundle_entry_ids, info, ids, size(1)),
            (library.amd_comgr_do_action, 15, info, given, results),  # AMD_COMGR_ACTION_UNBUNDLE
            (library.amd_comgr_action_data_count, results, 8, ctypes.byref(count)),  # AMD_COMGR_DATA_KIND_EXECUTABLE
        ]
        status = next((status for step, *arguments in steps if (status := step(*arguments))), 0)
        code = None if status or not count.value else content(results)
        for it in given, results:
            library.amd_comgr_destroy_data_set(it)
        library.amd_comgr_destroy_action_info(info)
        library.amd_comgr_release_data(data)
        return hashlib.sha256(code).hexdigest() if code else None

    def content(results):
        data, length = Data(), size()
        library.amd_comgr_action_data_get_data(results, 8, size(0), ctypes.byref(data))
        library.amd_comgr_get_data(data, ctypes.byref(length), None)
        code = ctypes.create_string_buffer(length.value + 1)
        library.amd_comgr_get_data(data, ctypes.byref(length), code)
        library.amd_comgr_release_data(data)
        return code.raw[:length.value]

    def answer(bundle, isa, is_packed=False):
        return (unbundle if is_packed else look_up)(bytes.fromhex(bundle), isa)

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

    def answer(binary, marker, index, isas, is_digest=False):
        names = (ctypes.c_char_p * len(isas))(*map(str.encode, isas))
        data, size = pointer(), ctypes.c_size_t()
        error = library.kpack_load_code_object(cache, bytes.fromhex(marker), binary.encode(), index, names, len(isas),
                                               ctypes.byref(data), ctypes.byref(size))
        if error:
            return error if is_digest else None
        code = ctypes.string_at(data, size.value)
        library.kpack_free_code_object(data)
        return hashlib.sha256(code).hexdigest() if is_digest else code.hex() or None

    return answer


def opening(path):
    library, archive = ctypes.CDLL(path), ctypes.c_void_p()
    return lambda archive_path: library.kpack_open(archive_path.encode(), ctypes.byref(archive))


def serve(kind, path):
    answer = {'comgr': comgr, 'kpack': kpack, 'open': opening}[kind](path)
    # The libraries may print.
    replies = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    print('ready', file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), file=replies, flush=True)


if __name__ == '__main__':
    serve(*sys.argv[1:])
