#!/usr/bin/env bash
# pyqasm 1.3.0, amazon-braket-default-simulator 1.41.2, qiskit 2.6.1 and qiskit-qasm3-import 0.6.0 (PyPI): one program in OpenQASM 3 by three readers, and in
# OpenQASM 2 by qiskit.
# Expected: one program has one meaning: rx(1/2*pi) is a quarter of a turn, and [0:2:3] is 0 and 2, since the end of a range is part of it.
# Seen: in OpenQASM 3 the quotient of two whole numbers is one: qiskit and braket do not turn at all by rx(1/2*pi), which is a quarter of a turn in OpenQASM 2,
# and pow(1/2) @ x, the root of X, is nothing. pyqasm, by which programs are made plain for devices, divides as in OpenQASM 2. It takes [0:2:3] for 0, 2
# and 4, and turns one qubit more than braket. None of it gives a message.
. "$(dirname "$0")/common.sh"
recorded <<'END'
rx(1/2*pi) q[0];
  OpenQASM 2 by qiskit: 0.5 0 0 0 0 0
  qiskit: 0 0 0 0 0 0
  braket: 0 0 0 0 0 0
  pyqasm: 0.5 0 0 0 0 0
rx(pi*1/2) q[0];
  OpenQASM 2 by qiskit: 0.5 0 0 0 0 0
  qiskit: 0.5 0 0 0 0 0
  braket: 0.5 0 0 0 0 0
  pyqasm: 0.5 0 0 0 0 0
rx(3/2) q[0];
  OpenQASM 2 by qiskit: 0.465 0 0 0 0 0
  qiskit: 0.23 0 0 0 0 0
  braket: 0.23 0 0 0 0 0
  pyqasm: 0.465 0 0 0 0 0
rx(-7/2) q[0];
  OpenQASM 2 by qiskit: 0.968 0 0 0 0 0
  qiskit: 0.827 0 0 0 0 0
  braket: 0.827 0 0 0 0 0
  pyqasm: 0.968 0 0 0 0 0
pow(1/2) @ x q[0];
  OpenQASM 2 by qiskit: not read
  qiskit: 0 0 0 0 0 0
  braket: 0 0 0 0 0 0
  pyqasm: not read
for int k in [0:2:3] { x q[k]; }
  OpenQASM 2 by qiskit: not read
  qiskit: not read
  braket: 1 0 1 0 0 0
  pyqasm: 1 0 1 0 1 0
for int k in [0:2:4] { x q[k]; }
  OpenQASM 2 by qiskit: not read
  qiskit: not read
  braket: 1 0 1 0 1 0
  pyqasm: 1 0 1 0 1 0
END
venv "$work/venv" pyqasm==1.3.0 amazon-braket-default-simulator==1.41.2 qiskit==2.6.1 qiskit-qasm3-import==0.6.0 numpy==2.4.6
cat >"$work/readers.py" <<'END'
import logging

import pyqasm
from braket.default_simulator import StateVectorSimulator
from braket.ir.openqasm import Program
from qiskit import qasm2, qasm3
from qiskit.quantum_info import Statevector

logging.disable(logging.CRITICAL)
three = 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[6] q;\n'


def ones(circuit):
    return [Statevector(circuit).probabilities([qubit])[1] for qubit in range(6)]


def by_qiskit_of_2(body):
    return ones(qasm2.loads(f'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[6];\n{body}'))


def by_qiskit(body):
    return ones(qasm3.loads(three + body))


def by_braket(body):
    source = "OPENQASM 3.0;\nqubit[6] q;\nfor int k in [0:5] { i q[k]; }\n" + body
    source += "".join(f"\n#pragma braket result probability q[{qubit}]" for qubit in range(6))
    return [result.value[1] for result in StateVectorSimulator().run(Program(source=source), shots=0).resultTypes]


def by_pyqasm(body):
    module = pyqasm.loads(three + body)
    module.unroll()
    return ones(qasm3.loads(pyqasm.dumps(module)))


readers = ("OpenQASM 2 by qiskit", by_qiskit_of_2), ("qiskit", by_qiskit), ("braket", by_braket), ("pyqasm", by_pyqasm)
angles = "rx(1/2*pi) q[0];", "rx(pi*1/2) q[0];", "rx(3/2) q[0];", "rx(-7/2) q[0];", "pow(1/2) @ x q[0];"
for body in *angles, "for int k in [0:2:3] { x q[k]; }", "for int k in [0:2:4] { x q[k]; }":
    print(body)
    for name, read in readers:
        try:
            print(f"  {name}: " + " ".join(f"{abs(value):.3g}" for value in read(body)))
        except Exception:
            print(f"  {name}: not read")
END
"$work/venv/bin/python" -W ignore "$work/readers.py" >"$work/out"
compare "$work/out"
