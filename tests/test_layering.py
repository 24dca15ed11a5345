"""Who may import whom, what is loaded when, and names that cannot be confused."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"meshes", "pde", "validation", "scripts", "sphere_attention_scripts", "tests"}
MAY_IMPORT = {
    "meshes": {"meshes"},
    "pde": {"meshes", "pde"},
    "validation": {"meshes", "pde", "validation"},
    "scripts": {"meshes", "pde", "validation", "sphere_attention_scripts"},
}
HEAVY = {
    "matplotlib",
    "scipy.spatial",
    "scipy.optimize",
    "tqdm",
    "xarray",
    "netCDF4",
    "dask",
    "ot",
    "torch",
    "pandas",
    "meshio",
    "uxarray",
    "vtk",
    "PIL",
}
MODULES = {
    package: sorted(path for path in (ROOT / package).rglob("*.py")) for package in MAY_IMPORT
}


def imports(node):
    """Full names imported anywhere under an ast node; of `from a import b` both a and a.b."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def at_import(tree):
    """Names imported when the module is: outside functions, and not for type checking only."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if not isinstance(part, ast.FunctionDef):
                    yield from imports(part)
        else:
            yield from imports(node)


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_part(name, family):
    return name == family or name.startswith(family + ".")


def test_there_is_something_to_look_at():
    assert all(len(paths) >= 3 for paths in MODULES.values())


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_downwards_only(package):
    for path in MODULES[package]:
        ours = {name.split(".")[0] for name in imports(parsed(path))} & OURS
        assert ours <= MAY_IMPORT[package], path


@pytest.mark.parametrize("package", ["meshes", "pde"])
def test_heavy_libraries_are_imported_where_they_are_used(package):
    for path in MODULES[package]:
        loaded = set(at_import(parsed(path)))
        wrong = {name for name in loaded for heavy in HEAVY if is_part(name, heavy)}
        assert not wrong, path


def test_importing_pde_loads_none_of_them():
    code = f"import sys, pde; print([name for name in {sorted(HEAVY)} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_kernels_know_numba():
    for package, paths in MODULES.items():
        for path in paths:
            if (ROOT / "pde" / "kernels") in path.parents:
                continue
            # Asking numba for the number of threads is no kernel; it happens inside functions.
            loaded = at_import(parsed(path)) if package == "scripts" else imports(parsed(path))
            assert not any(is_part(name, "numba") for name in loaded), path


@pytest.mark.parametrize("package", ["meshes", "pde", "validation"])
def test_no_module_shares_its_name_with_what_the_package_offers(package):
    """`from pde import log_partition` must never give a module in place of the function."""
    offered = importlib.import_module(package)
    names = set(getattr(offered, "__all__", []))
    modules = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    for name in names & modules:
        assert getattr(offered, name) is importlib.import_module(f"{package}.{name}")


def test_no_study_knows_another():
    """What studies share lies in the folders of validation and in the tools beside them."""
    from validation.__main__ import studies

    own = {f"validation.{name}" for name in studies()}
    assert len(own) > 20
    for path in MODULES["validation"]:
        assert not own & set(imports(parsed(path))), path


def test_the_names_promised_are_offered():
    import meshes
    import pde

    assert {"icosphere", "circle", "SphereMesh", "MeshError"} <= set(meshes.__all__)
    promised = """Measure SelfAttention ZeroTemperatureAttention PrescribedVelocity StreamFunction
        Equation FiniteVolume ParticleSystem Simulation Solution log_partition initial limits"""
    assert set(promised.split()) <= set(pde.__all__)
    for package in (meshes, pde):
        for name in package.__all__:
            assert getattr(package, name) is not None


def test_every_package_is_installed_and_typed():
    """setup.cfg lists packages one by one: none is forgotten."""
    import configparser

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in MAY_IMPORT
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert listed == {name.replace("scripts", "sphere_attention_scripts") for name in found}
    for package in MAY_IMPORT:
        assert (ROOT / package / "py.typed").exists()
