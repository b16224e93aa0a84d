"""Integration of the generated equations: RODAS3 steps, feed intervals, daily outputs.

This file is not imported: `kernel.py` appends the part below the line to the generated routines and
compiles both. W is the work array: quantity q of lane l at q·LANES + l.
"""
# mypy: ignore-errors
# ruff: noqa: F821

import math

import numpy as np

# ------------------------------------------------------------------------------------------------

N = len(STATES)
NL = N * LANES
# Below these the error of a step is absolute.
SMALL = np.array([{"S_h2": 1e-5, "S_H": 1e-6}.get(s, 1e-2) for s in STATES])
# Concentrations must not become negative; recorded flows may.
CONCENTRATION = np.array([s[:2] in ("S_", "X_") for s in STATES])
SOLVED = (AT_S_H, AT_S_h2, AT_S_cation, AT_S_anion, AT_gas)
STATE_OUTPUTS = tuple(STATES.index(s) for s in ("S_va", "S_bu", "S_pro", "S_ac", "S_IN"))


@compiled
def copy(W, start, end, count):
    """Copy quantities; slices would take longer to compile than all else."""
    for k in range(count):
        W[end + k] = W[start + k]


@compiled
def add_drift(W, now, later, washed, share, at):
    """Add share·h·∂f/∂t to the vector there, for a feed that changes linearly during the step."""
    for i in range(N):
        change = share * (later[i] - now[i])
        dilution = share * washed[i] * (later[N] - now[N])
        for lane in range(LANES):
            W[at + i * LANES + lane] += change - dilution * W[AT_y + i * LANES + lane]


@compiled
def error_of_step(W, rtol):
    """Compute the root mean square of error/tolerance in the first lane."""
    total = 0.0
    for i in range(N):
        k = i * LANES
        size = max(abs(W[AT_saved + k]), abs(W[AT_y + k]))
        total += ((W[AT_y + k] - W[AT_Y + k]) / (rtol * (SMALL[i] + size))) ** 2
    return math.sqrt(total / N)


@compiled
def negative(W):
    """Return True if a concentration of any lane was negative so far, or is none."""
    fine = 0
    for lane in range(LANES):
        fine += W[AT_lowest + lane] >= 0.0
    return fine < LANES


@compiled
def unsettled(W, at, tolerance):
    """Return True if a lane needs another Newton iteration; NaN lanes do not count."""
    largest = 0.0
    for lane in range(LANES):
        largest = max(largest, abs(W[at + lane]))
    return largest > tolerance


@compiled
def settle(W, constants, nu, D, in_S_h2, tolerance):
    """Solve in each lane the charge balance for S_H, and the stationary balance for S_h2.

    They are the algebraic states of the variant dae.
    """
    for lane in range(LANES):
        W[AT_residual_S_H + lane] = 1.0
        W[AT_residual_S_h2 + lane] = 1.0
    begin_S_H(W, constants, nu, W, 0.0, 0.0)
    for _ in range(1000):
        newton_S_H(W, constants, nu, W, 0.0, 0.0, tolerance)
        if not unsettled(W, AT_residual_S_H, tolerance):
            break
    if DAE:
        inhibition(W)
    begin_S_h2(W, constants, nu, W, D, in_S_h2)
    for _ in range(1000):
        newton_S_h2(W, constants, nu, W, D, in_S_h2, tolerance)
        if not unsettled(W, AT_residual_S_h2, tolerance):
            break
    ions(W, constants)
    if DAE:
        copy(W, AT_S_h2, AT_y + NL - 2 * LANES, LANES)
        copy(W, AT_S_H, AT_y + NL - LANES, LANES)


@compiled
def check_day(W, solids, fine, left):
    """Compute in each lane 1, or −1 with a negative concentration, and the solids that are left."""
    for lane in range(LANES):
        fine[lane], left[lane] = 1.0, solids[N]
    for i in range(N):
        for lane in range(LANES):
            left[lane] -= solids[i] * W[AT_y + i * LANES + lane]
        if CONCENTRATION[i]:
            for lane in range(LANES):
                fine[lane] = fine[lane] if W[AT_y + i * LANES + lane] >= 0.0 else -1.0


@compiled
def report(W, lane, sums, parts, fine, left, row):
    """Write the nine outputs of a day, NaN if something impossible happened."""
    least = fine[lane]
    for k in range(5):
        row[k] = W[AT_y + STATE_OUTPUTS[k] * LANES + lane]
    for k in range(4):
        row[5 + k] = sums[k, lane] if k < 2 else sums[k, lane] / parts
        least = min(least, row[5 + k])
    if not min(least, left[lane], 1.0 - W[AT_S_H + lane]) > 0.0:
        row[0] = np.nan


@compiled
def step(W, constants, nu, feed, washed, inflow, h, done, length):
    """Make a step of RODAS3 at time `done` of an interval; its error is then y − Y."""
    now, later, ramp = feed[0], feed[1], False
    if DAE:  # the variant split holds the feed
        for i in range(N + 1):
            slope = (feed[1, i] - feed[0, i]) / length
            inflow[0, i] = feed[0, i] + slope * done
            inflow[1, i] = inflow[0, i] + slope * h
            ramp = ramp or slope != 0.0
        now, later = inflow[0], inflow[1]
    g = 2.0 / h
    factorise(W, constants, nu, now, now[N], g)
    if ramp:
        add_drift(W, now, later, washed, 0.5, AT_f)
    stage_1(W, constants, nu, now, now[N], g)
    if ramp:
        add_drift(W, now, later, washed, 0.5 / g, AT_gap)
    stage_2(W, constants, nu, now, now[N], g)
    stage_3(W, constants, nu, later, later[N], g)
    stage_4(W, constants, nu, later, later[N], g)


@compiled
def euler(W, constants, nu, inflow, h):
    """Make a linearly implicit step of first order."""
    factorise(W, constants, nu, inflow, inflow[N], 1.0 / h)
    stage_1(W, constants, nu, inflow, inflow[N], 1.0 / h)
    for k in range(NL):
        W[AT_y + k] += W[AT_gap + k]


@compiled
def integrate(W, constants, nu, feed, washed, inflow, length, h_max, early):
    """Integrate over an interval with fixed steps of about h_max.

    Early, in the initial transient, they begin with h_max/80 and grow by 1.3. Later those of the
    variant split begin with an Euler step of 0.06 and a step of 0.45, unless there is one alone:
    what is held jumps between intervals, and within minutes the gas follows.
    """
    if early:
        h, total = h_max / 80.0, 0.0
        while total < length * (1.0 - 1e-9):
            total += h
            h = min(1.3 * h, h_max)
        stretch, h, done = length / total, h_max / 80.0, 0.0
        while done < length * (1.0 - 1e-9):
            step(W, constants, nu, feed, washed, inflow, h * stretch, done, length)
            done += h * stretch
            h = min(1.3 * h, h_max)
        return
    count = max(1, math.ceil(length / h_max * (1.0 - 1e-9)))
    h, done = length / count, 0.0
    if not DAE and count > 1:
        done = 0.06 * h
        euler(W, constants, nu, feed[0], done)
        step(W, constants, nu, feed, washed, inflow, 0.45 * h, done, length)
        done += 0.45 * h
        count -= 1
        h = (length - done) / count
    for k in range(count):
        step(W, constants, nu, feed, washed, inflow, h, done + k * h, length)


@compiled
def adapt(W, constants, nu, feed, washed, inflow, length, h, rtol, most):
    """Integrate over an interval with adaptive steps, the first h; return the first of the next.

    If steps become too short, or there are more than `most`, that is below 1e-10. Also return how
    many are left, a negative number in that case.
    """
    done, h_next, first = 0.0, h, True
    while done < length:
        most -= 1
        if most < 0:
            return 0.0, most
        left = length - done
        h_step = left if h >= 0.999 * left else min(h, 0.5 * left)
        copy(W, AT_y, AT_saved, NL)
        step(W, constants, nu, feed, washed, inflow, h_step, done, length)
        error = error_of_step(W, rtol)
        factor = 0.1
        if error < 1e30:
            factor = min(6.0, max(0.15, 0.9 * (error + 1e-12) ** (-1.0 / 3.0)))
        if not error <= 1.0:
            h = h_step * factor
            if h < 1e-10:
                return 0.0, most
            copy(W, AT_saved, AT_y, NL)
            continue
        h = min(h_step * factor, 1.0)
        if first:
            h_next, first = h, False
        done = length if h_step == left else done + h_step
    return h_next, most


@compiled
def follow(W, constants, nu, times, feed, washed, ions_in, h2_in, day, solids, options, room,
           outputs, trace, lowest):  # fmt: skip
    """Simulate from the state in W on; `room` are arrays of LANES, and of 2 · (N + 1) numbers."""
    h_max, transient, rtol, tolerance, most = options
    failed, inflow, sums, fine, left = room
    parts, h = 0, 0.01
    for n in range(len(times) - 1):
        length = times[n + 1] - times[n]
        if DAE and n == 0:
            settle(W, constants, nu, feed[0, 0, N], h2_in[0], tolerance)
            prepare(W, constants, nu)
        elif not DAE:
            inhibition(W)
            prepare(W, constants, nu)
        copy(W, AT_y, AT_before, NL)
        if rtol > 0.0:
            h, most = adapt(W, constants, nu, feed[n], washed, inflow, length, h, rtol, most)
            if h < 1e-10:
                for lane in range(LANES):
                    failed[lane] = True
                h = 1e-8
        elif length > 0.0:
            early = times[n] - times[0] < transient
            integrate(W, constants, nu, feed[n], washed, inflow, length, h_max, early)

        if negative(W):
            for i in range(N):
                if CONCENTRATION[i]:
                    for k in range(i * LANES, (i + 1) * LANES):
                        if W[AT_y + k] < 0.0:  # as the paper's code does
                            W[AT_y + k] = 0.5 * W[AT_before + k]
        if DAE:
            copy(W, AT_y + NL - 2 * LANES, AT_S_h2, LANES)
            copy(W, AT_y + NL - LANES, AT_S_H, LANES)
        else:
            kept = math.exp(-feed[n, 1, N] * length)
            for lane in range(LANES):
                for at, inside in ((AT_S_cation, ions_in[n, 0]), (AT_S_anion, ions_in[n, 1])):
                    W[at + lane] = inside + kept * (W[at + lane] - inside)
            settle(W, constants, nu, feed[n, 1, N], h2_in[n], tolerance)
        gas(W, constants)

        parts += 1
        for lane in range(LANES):
            for k in range(4):
                sums[k, lane] += W[AT_gas + k * LANES + lane] * (length if k < 2 else 1.0)
        if len(trace):
            for lane in range(LANES):
                if failed[lane]:
                    continue
                for i in range(N):
                    trace[lane, n, i] = W[AT_y + i * LANES + lane]
                for k in range(5):
                    trace[lane, n, N + k] = W[SOLVED[k] + lane]
        if day[n] < 0:
            continue
        going = False
        check_day(W, solids[day[n]], fine, left)
        for lane in range(LANES):
            report(W, lane, sums, parts, fine, left, outputs[lane, day[n]])
            if not failed[lane]:  # values after a failure mean nothing
                lowest[lane] = W[AT_lowest + lane]
            failed[lane] = failed[lane] or math.isnan(outputs[lane, day[n], 0])
            if failed[lane]:
                for k in range(9):
                    outputs[lane, day[n], k] = np.nan
            else:
                going = True
            for k in range(4):
                sums[k, lane] = 0.0
        parts = 0
        if not going:
            break
    return most < 0


@allocating
def simulate(W, kinetics, initial, constants, nu, times, feed, washed, ions_in, h2_in, day, solids,
             options, outputs, trace, lowest):  # fmt: skip
    """Simulate all feed intervals in LANES lanes.

    W (SIZE,): zeros; kinetics (LANES, …); initial (N + 4,): the states, then S_H, S_h2, S_cation,
    S_anion. feed (n, 2, N + 1): inflow (dilution rate times concentration) and dilution rate at the
    beginning and the end of each interval; ions_in (n, 2); h2_in (n,), the inflow of S_h2; day
    (n,): the row of the outputs that an interval completes, or −1; solids (days, N + 1): weights of
    the states in volatile solids, and the solids of the feed.

    Steps are fixed, as in `integrate`; with rtol > 0 they adapt to the error of the first lane, and
    are at most `most` in all. Return True if that was too few.
    Outputs (LANES, days, 9) are NaN from the day a simulation fails; `lowest` (LANES,) is the
    lowest concentration until then, negative if a fixed step was too long.
    """
    for lane in range(LANES):
        for k in range(kinetics.shape[1]):
            W[AT_kinetics + k * LANES + lane] = kinetics[lane, k]
        for i in range(N):
            W[AT_y + i * LANES + lane] = initial[i]
        for k in range(4):
            W[SOLVED[k] + lane] = initial[N + k]
        W[AT_lowest + lane] = np.inf
    ions(W, constants)
    failed = np.zeros(LANES, np.bool_)
    inflow = np.empty((2, N + 1))
    sums = np.zeros((4, LANES))  # of gas and methane volume, and of two partial pressures
    room = (failed, inflow, sums, np.empty(LANES), np.empty(LANES))
    return follow(W, constants, nu, times, feed, washed, ions_in, h2_in, day, solids, options,
                  room, outputs, trace, lowest)  # fmt: skip
