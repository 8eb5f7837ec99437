#!/usr/bin/env bash
# highspy 1.16.0, pulp 3.3.2 with its CBC and pyscipopt 6.3.0 (PyPI), GLPK 5.0 and lp_solve 5.5.2.5 (Debian 12): models of
# optimization in the format that all of them read and write (MPS).
# Expected: one model has one optimum, or is refused. What PuLP and lp_solve write, as each states its bounds, means the same to others.
# Seen: an integer without bounds ends at 1 for four of them, and not for lp_solve. For GLPK it also ends at 1 if a lower bound is stated, as PuLP
# writes its integers: a model of PuLP has another optimum there, with success. PuLP also drops the constant of the objective; GLPK and lp_solve take its sign
# the other way round. An upper bound below 0 alone leaves no lower bound for CBC alone.
. "$(dirname "$0")/common.sh"
recorded <<'END'
most of x up to 7.5, an integer without bounds: highs -1, scip -1, cbc -1, glpk -1, lp_solve -7
the same from 0: highs -7, scip -7, cbc -7, glpk -1, lp_solve -7
least of x from -9, at most -3: highs none, scip none, cbc -9, glpk none, lp_solve none
least of x from 2, less 10: highs -8, scip -8, cbc -8, glpk 12, lp_solve 12
least of 10 - 3 x, x an integer up to 7.5, as PuLP writes it, which has -11: highs -21, scip -21, cbc -21, glpk -3, lp_solve -21
least of x + 10, x from 2, as lp_solve writes it: highs -8, scip -8, cbc -8, glpk 12, lp_solve 12
END
debs glpk-utils=5.0-1 libglpk40=5.0-1 libamd2=1:5.12.0+dfsg-2 libcolamd2=1:5.12.0+dfsg-2 libsuitesparseconfig5=1:5.12.0+dfsg-2 \
    libltdl7=2.4.7-7~deb12u1 libgmp10=2:6.2.1+dfsg1-1.1 lp-solve=5.5.2.5-2
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$work/root/usr/lib/lp_solve
venv "$work/venv" highspy==1.16.0 pulp==3.3.2 pyscipopt==6.3.0 numpy==2.4.6
cat >"$work/models.py" <<'END'
import re
import subprocess

import highspy
import pulp
import pyscipopt


def run(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def highs():
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel("model.mps")
    solver.run()
    return solver.getInfo().objective_function_value if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal else None


def scip():
    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem("model.mps")
    model.optimize()
    return model.getObjVal() if model.getStatus() == "optimal" else None


def cbc():
    run(pulp.PULP_CBC_CMD().path, "model.mps", "solve", "solution", "solution.txt", "quit")
    found = re.match(r"Optimal - objective value (\S+)", open("solution.txt").read())
    return found and float(found[1])


def glpk():
    run("glpsol", "--freemps", "model.mps", "--output", "solution.txt")
    found = re.search(r"Status: +(?:INTEGER )?OPTIMAL\nObjective: .* = (\S+)", open("solution.txt").read())
    return found and float(found[1])


def lp_solve():
    found = re.search(r"Value of objective function: (\S+)", run("lp_solve", "-fmps", "model.mps", "-S3"))
    return found and float(found[1])


def show(note):
    found = {solver.__name__: solver() for solver in (highs, scip, cbc, glpk, lp_solve)}
    print(f"{note}:", ", ".join(f"{name} {'none' if value is None else f'{value:g}'}" for name, value in found.items()))


def model(note, cost, limit, kind, bound="", constant=None):
    lines = ["NAME          m", "ROWS", " N  cost", " L  c" if cost < 0 else " G  c", "COLUMNS"]
    column = f"    x         cost      {cost:12}   c         {1:12}"
    marks = [f"    m         'MARKER'                 '{name}'" for name in ("INTORG", "INTEND")]
    lines += [marks[0], column, marks[1]] if kind == "integer" else [column]
    lines += ["RHS", f"    rhs       c         {limit:12}"] + ([f"    rhs       cost      {constant:12}"] if constant else [])
    lines += (["BOUNDS", f" {bound[:2]} b         x         {bound[3:]:>12}"] if bound else []) + ["ENDATA", ""]
    open("model.mps", "w").write("\n".join(lines))
    show(note)


model("most of x up to 7.5, an integer without bounds", -1, 7.5, "integer")
model("the same from 0", -1, 7.5, "integer", "LO 0")
model("least of x from -9, at most -3", 1, -9, "number", "UP -3")
model("least of x from 2, less 10", 1, 2, "number", constant=10)
x, problem = pulp.LpVariable("x", 0, None, "Integer"), pulp.LpProblem("p")
problem += 10 - 3 * x
problem += x <= 7.5
problem.solve(pulp.PULP_CBC_CMD(msg=0))
problem.writeMPS("model.mps")
show(f"least of 10 - 3 x, x an integer up to 7.5, as PuLP writes it, which has {pulp.value(problem.objective):g}")
open("model.lp", "w").write("min: x + 10; c: x >= 2;\n")
run("lp_solve", "model.lp", "-parse_only", "-S1", "-wfmps", "model.mps")
show("least of x + 10, x from 2, as lp_solve writes it")
END
(cd "$work" && PATH=$work/root/usr/bin:$PATH venv/bin/python -W ignore models.py) | grep ": highs" >"$work/out"
compare "$work/out"
