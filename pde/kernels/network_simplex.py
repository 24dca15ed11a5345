"""Primal network simplex for transport from n sources to m sinks over a list of arcs.

A basis is a spanning tree: nodes 0 ... n-1 are sources, n ... n+m-1 sinks, n+m is the root, an
auxiliary node. A node's record describes the arc to its parent. Arcs lead from a source to a sink,
so a source's flow runs up to its parent and a sink's down from it; the arcs at the root all run up,
carry nothing, and vanish for good when they leave the basis.

Masses are integers: flows never drift, and ties are ties. The tree stays strongly feasible (an
arc without flow runs up), by the choice among ties of W. H. Cunningham, Math. Programming 11
(1976): no cycling. Dual potentials: cost = dual[source] + dual[sink] on every arc of the tree.
"""

import numpy as np

from pde.kernels.compile import kernel

NODE = np.dtype(
    [
        ("parent", np.int32),
        ("child", np.int32),
        ("following", np.int32),
        ("preceding", np.int32),
        ("depth", np.int32),
        ("flow", np.int64),
        ("cost", np.float64),
        ("dual", np.float64),
    ],
    align=True,
)
"""One node: its place in the tree, and flow and cost of the arc to its parent."""


@kernel
def _hang(tree, node, parent):
    """Make a node the first child of its parent."""
    first = tree[parent].child
    tree[node].parent, tree[node].following, tree[node].preceding = parent, first, -1
    if first >= 0:
        tree[first].preceding = node
    tree[parent].child = node


@kernel
def _cut(tree, node):
    """Take a node away from its parent."""
    before, after = tree[node].preceding, tree[node].following
    if before >= 0:
        tree[before].following = after
    else:
        tree[tree[node].parent].child = after
    if after >= 0:
        tree[after].preceding = before


@kernel
def _runs_up(tree, node, n):
    return node < n or tree[node].parent == tree.size - 1


@kernel
def _apex(tree, u, v):
    """The lowest common ancestor."""
    while u != v:
        if tree[u].depth >= tree[v].depth:
            u = tree[u].parent
        else:
            v = tree[v].parent
    return u


@kernel
def _push(tree, source, sink, n):
    """Send as much as possible along the arc (source, sink) and back through the tree.

    Returns the amount and the node above which the tree opens. Of several the last is taken, in
    the sense of the flow and counted from the apex of the cycle (Cunningham's rule).
    """
    apex = _apex(tree, source, sink)
    amount, leaving = np.int64(2**62), -1
    u = source
    while u != apex:
        if _runs_up(tree, u, n) and tree[u].flow < amount:
            amount, leaving = tree[u].flow, u
        u = tree[u].parent
    v = sink
    while v != apex:
        if not _runs_up(tree, v, n) and tree[v].flow <= amount:
            amount, leaving = tree[v].flow, v
        v = tree[v].parent
    if amount > 0:
        u, v = source, sink
        while u != apex:
            tree[u].flow += -amount if _runs_up(tree, u, n) else amount
            u = tree[u].parent
        while v != apex:
            tree[v].flow += amount if _runs_up(tree, v, n) else -amount
            v = tree[v].parent
    return amount, leaving


@kernel
def _rehang(tree, node, parent, leaving, flow, cost):
    """Turn the branch below `leaving` round, so that it hangs by `node` from `parent`."""
    while True:
        old_parent, old_flow, old_cost = tree[node].parent, tree[node].flow, tree[node].cost
        _cut(tree, node)
        _hang(tree, node, parent)
        tree[node].flow, tree[node].cost = flow, cost
        if node == leaving:
            return
        node, parent, flow, cost = old_parent, node, old_flow, old_cost


@kernel
def _next(tree, node, top):
    """The node after this one in the branch of `top`, parents before their children; -1: none."""
    if tree[node].child >= 0:
        return tree[node].child
    while node != top and tree[node].following < 0:
        node = tree[node].parent
    return -1 if node == top else tree[node].following


@kernel
def _shift(tree, top, change, n):
    """After a branch was hung elsewhere: its depths, its potentials (sources + change, sinks -)."""
    node = top
    while node >= 0:
        tree[node].depth = tree[tree[node].parent].depth + 1
        tree[node].dual += change if node < n else -change
        node = _next(tree, node, top)


@kernel
def _refresh(tree):
    """The potentials from the costs, without the rounding that many shifts have left."""
    root = tree.size - 1
    node = tree[root].child
    while node >= 0:
        parent = tree[node].parent
        if parent != root:
            tree[node].dual = tree[node].cost - tree[parent].dual
        node = _next(tree, node, root)


@kernel
def _is_above(tree, top, node):
    while tree[node].depth > tree[top].depth:
        node = tree[node].parent
    return node == top


@kernel
def _pivot(tree, source, sink, cost, n):
    """Bring the arc (source, sink) into the basis."""
    reduced = cost - tree[source].dual - tree[sink].dual
    amount, leaving = _push(tree, source, sink, n)
    if _is_above(tree, leaving, source):
        _rehang(tree, source, sink, leaving, amount, cost)
        _shift(tree, source, reduced, n)
    else:
        _rehang(tree, sink, source, leaving, amount, cost)
        _shift(tree, sink, -reduced, n)


@kernel
def optimise(tree, source, sink, cost, n, tolerance, block, limit):
    """Pivot until no arc of the list has a reduced cost below -tolerance; the number of pivots.

    limit : pivots after which to stop in any case

    source, sink, cost : (n_arcs,) the arcs, sinks counted from n.
    Of every `block` arcs looked at in turn, the one with the most negative reduced cost enters.
    """
    _refresh(tree)
    n_arcs = source.size
    pivots = looked = a = 0
    while looked < n_arcs and pivots < limit:
        lowest, entering = -tolerance, -1
        for _ in range(block):
            reduced = cost[a] - tree[source[a]].dual - tree[sink[a]].dual
            if reduced < lowest:
                lowest, entering = reduced, a
            a = a + 1 if a + 1 < n_arcs else 0
        looked += block
        if entering >= 0:
            _pivot(tree, source[entering], sink[entering], cost[entering], n)
            pivots += 1
            looked = 0
    _refresh(tree)
    return pivots


@kernel
def _incidence(source, sink, n_nodes):
    """The arcs at every node: node k's are arcs[start[k]:start[k + 1]]."""
    start = np.zeros(n_nodes + 1, dtype=np.int64)
    for a in range(source.size):
        start[source[a] + 1] += 1
        start[sink[a] + 1] += 1
    start = np.cumsum(start)
    place = start.copy()
    arcs = np.empty(2 * source.size, dtype=np.int64)
    for a in range(source.size):
        for node in (source[a], sink[a]):
            arcs[place[node]] = a
            place[node] += 1
    return start, arcs


@kernel
def plant(source, sink, flow, cost, n, guess):
    """The basis whose arcs are the given ones: a forest without zero flows, sinks counted from n.

    Every component hangs from the root by one node, which keeps the potential that guess (n + m,)
    gives it.
    """
    root = guess.size
    tree = np.zeros(root + 1, dtype=NODE)
    for node in range(root + 1):
        tree[node].parent = tree[node].child = -1
    start, arcs = _incidence(source, sink, root)
    stack = np.empty(root, dtype=np.int64)
    for seed in range(root):
        if tree[seed].parent >= 0:
            continue
        _hang(tree, seed, root)
        tree[seed].depth, tree[seed].dual = 1, guess[seed]
        stack[0], height = seed, 1
        while height > 0:
            height -= 1
            node = stack[height]
            for a in arcs[start[node] : start[node + 1]]:
                other = sink[a] if node < n else source[a]
                if tree[other].parent >= 0:
                    continue
                _hang(tree, other, node)
                tree[other].depth = tree[node].depth + 1
                tree[other].flow, tree[other].cost = flow[a], cost[a]
                tree[other].dual = cost[a] - tree[node].dual
                stack[height] = other
                height += 1
    return tree


@kernel
def refine_plan(source, sink, flow, sources, sinks, supply, demand):
    """A plan between clusters as one between their children, by the northwest corner rule.

    Children of cluster k are sources[k] ... sources[k + 1] - 1 (likewise sinks), their masses
    supply and demand. A forest of arcs becomes a forest: within an arc the rule makes a path, and
    the paths of two arcs at one cluster share at most one child.
    """
    supply, demand = supply.copy(), demand.copy()
    at_source, at_sink = sources[:-1].copy(), sinks[:-1].copy()
    size = supply.size + demand.size + source.size
    i, j = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    amount = np.empty(size, dtype=np.int64)
    n_arcs = 0
    for a in range(source.size):
        left = flow[a]
        while left > 0:
            s, t = at_source[source[a]], at_sink[sink[a]]
            moved = min(left, supply[s], demand[t])
            i[n_arcs], j[n_arcs], amount[n_arcs] = s, t, moved
            n_arcs += moved > 0
            left -= moved
            supply[s] -= moved
            demand[t] -= moved
            at_source[source[a]] += supply[s] == 0
            at_sink[sink[a]] += demand[t] == 0
    return i[:n_arcs], j[:n_arcs], amount[:n_arcs]
