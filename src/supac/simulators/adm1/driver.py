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
DL = DIFFERENTIAL * LANES
# Below these the error of a step is absolute.
SMALL = np.array([{"S_h2": 1e-5, "S_H": 1e-6}.get(s, 1e-2) for s in STATES])
# Concentrations must not become negative; recorded flows may.
CONCENTRATION = np.array([s[:2] in ("S_", "X_") for s in STATES])
SOLVED = (AT_S_H, AT_S_h2, AT_S_cation, AT_S_anion, AT_gas)
STATE_OUTPUTS = tuple(STATES.index(s) for s in ("S_va", "S_bu", "S_pro", "S_ac", "S_IN"))


@compiled
def add_drift(W, now, later, washed, share):
    """Add share·h·∂f/∂t to f, for a feed that changes linearly during the step."""
    for i in range(N):
        change = share * (later[i] - now[i])
        dilution = share * washed[i] * (later[N] - now[N])
        for lane in range(LANES):
            W[AT_f + i * LANES + lane] += change - dilution * W[AT_y + i * LANES + lane]


@compiled
def note_lowest(W):
    """Update the lowest concentration of each lane; NaN stays NaN."""
    for i in range(N):
        if CONCENTRATION[i]:
            for lane in range(LANES):
                value, lowest = W[AT_Y + i * LANES + lane], W[AT_lowest + lane]
                W[AT_lowest + lane] = lowest if value >= lowest else value


@compiled
def error_of_step(W, rtol):
    """Compute the root mean square of error/tolerance in the first lane."""
    total = 0.0
    for i in range(N):
        k = i * LANES
        size = max(abs(W[AT_y + k]), abs(W[AT_Y + k]))
        total += (W[AT_K4 + k] / (rtol * (SMALL[i] + size))) ** 2
    return math.sqrt(total / N)


@compiled
def unsettled(W, tolerance):
    """Return True if a lane needs another Newton iteration; NaN lanes do not count."""
    largest = 0.0
    for lane in range(LANES):
        largest = max(largest, abs(W[AT_residual + lane]))
    return largest > tolerance


@compiled
def settle(W, constants, nu, D, in_S_h2, tolerance):
    """Solve in each lane the charge balance for S_H, and the stationary balance for S_h2.

    They are the algebraic states of the variant dae.
    """
    W[AT_residual : AT_residual + LANES] = 1.0
    for _ in range(1000):
        newton_S_H(W, constants, nu, W, 0.0, 0.0, tolerance)
        if not unsettled(W, tolerance):
            break
    if DAE:
        inhibition(W)
    W[AT_residual : AT_residual + LANES] = 1.0
    for _ in range(1000):
        newton_S_h2(W, constants, nu, W, D, in_S_h2, tolerance)
        if not unsettled(W, tolerance):
            break
    ions(W, constants)
    if DAE:
        W[AT_y + NL - 2 * LANES : AT_y + NL - LANES] = W[AT_S_h2 : AT_S_h2 + LANES]
        W[AT_y + NL - LANES : AT_y + NL] = W[AT_S_H : AT_S_H + LANES]


@compiled
def simulate(kinetics, initial, constants, nu, times, feed, washed, ions_in, h2_in, day, solids,
             options, outputs, trace, lowest):  # fmt: skip
    """Simulate all feed intervals in LANES lanes.

    kinetics (LANES, …); initial (N + 4,): the states, then S_H, S_h2, S_cation, S_anion. feed
    (n, 2, N + 1): inflow (dilution rate times concentration) and dilution rate at the beginning and
    the end of each interval; ions_in (n, 2); h2_in (n,), the inflow of S_h2; day (n,): the row of
    the outputs that an interval completes, or −1; solids (days, N + 1): weights of the states in
    volatile solids, and the solids of the feed.

    Steps are fixed: they grow by 1.3 from h_first to h_max during the initial transient, and are
    about h_max after it. With rtol > 0 they adapt to the error of the first lane. Outputs (LANES,
    days, 9) are NaN from the day a simulation fails; `lowest` (LANES,) is the lowest concentration
    until then, negative if a fixed step was too long.
    """
    h_first, h_max, transient, rtol, tolerance = options
    W = np.zeros(SIZE)
    for lane in range(LANES):
        for k in range(kinetics.shape[1]):
            W[AT_kinetics + k * LANES + lane] = kinetics[lane, k]
        W[AT_y + lane : AT_y + NL : LANES] = initial[:N]
        for k in range(4):
            W[SOLVED[k] + lane] = initial[N + k]
        W[AT_lowest + lane] = np.inf
    ions(W, constants)
    failed = np.zeros(LANES, np.bool_)
    now, later = np.empty(N + 1), np.empty(N + 1)
    sums = np.zeros((4, LANES))  # of gas and methane volume, and of two partial pressures
    parts, h = 0, 0.01
    for n in range(len(times) - 1):
        length = times[n + 1] - times[n]
        if DAE and n == 0:
            settle(W, constants, nu, feed[0, 0, N], h2_in[0], tolerance)
            prepare(W, constants, nu)
        elif not DAE:
            inhibition(W)
            prepare(W, constants, nu)
        W[AT_before : AT_before + NL] = W[AT_y : AT_y + NL]

        ramp = (feed[n, 0] != feed[n, 1]).any()
        now[:] = later[:] = feed[n, 0]
        stretch, done, first = 1.0, 0.0, True
        if rtol == 0.0 and length > 0.0:
            h_start = h_first if times[n] - times[0] < transient else h_max
            total, h = 0.0, h_start
            while total < length * (1.0 - 1e-9):
                total += h
                h = min(1.3 * h, h_max)
            stretch, h = length / total, h_start
        h_next = h
        while done < length:
            # RODAS3 (Sandu et al., 1997): stages at times 0, 0, 1, 1, one factorisation, γ = 1/2.
            if rtol > 0.0:
                left = length - done
                h_step = left if h >= 0.999 * left else min(h, 0.5 * left)
            else:
                h_step = h * stretch
            if ramp:
                for i in range(N + 1):
                    slope = (feed[n, 1, i] - feed[n, 0, i]) / length
                    now[i] = feed[n, 0, i] + slope * done
                    later[i] = now[i] + slope * h_step
            per_h = 1.0 / h_step
            for k in range(NL):
                W[AT_Y + k] = W[AT_y + k]
            rhs_and_factors(W, constants, nu, now, now[N], 2.0 * per_h)
            for k in range(NL):
                W[AT_f0 + k] = W[AT_f + k]
            if ramp:
                add_drift(W, now, later, washed, 0.5)
            solve(W)
            for k in range(NL):
                W[AT_K1 + k] = W[AT_f + k]
            for k in range(DL):
                W[AT_f + k] = W[AT_f0 + k] + 4.0 * per_h * W[AT_K1 + k]
            for k in range(DL, NL):
                W[AT_f + k] = W[AT_f0 + k]
            if ramp:
                add_drift(W, now, later, washed, 1.5)
            solve(W)
            for k in range(NL):
                W[AT_K2 + k] = W[AT_K1 + k] - W[AT_f + k]  # K1 − K2
                W[AT_Y + k] = W[AT_y + k] + 2.0 * W[AT_K1 + k]
            rhs(W, constants, nu, later, later[N], 0.0)
            for k in range(DL):
                W[AT_f + k] += per_h * W[AT_K2 + k]
            solve(W)
            for k in range(NL):
                W[AT_K3 + k] = W[AT_f + k]
                W[AT_Y + k] += W[AT_f + k]
            rhs(W, constants, nu, later, later[N], 0.0)
            for k in range(DL):
                W[AT_f + k] += per_h * (W[AT_K2 + k] - 8.0 / 3.0 * W[AT_K3 + k])
            solve(W)
            for k in range(NL):
                W[AT_K4 + k] = W[AT_f + k]
                W[AT_Y + k] += W[AT_f + k]

            factor = 1.3
            if rtol > 0.0:
                error = error_of_step(W, rtol)
                factor = 0.1
                if error < 1e30:
                    factor = min(6.0, max(0.15, 0.9 * (error + 1e-12) ** (-1.0 / 3.0)))
                if not error <= 1.0:
                    h = h_step * factor
                    if h < 1e-10:
                        failed[:] = True
                        break
                    continue
                h = min(h_step * factor, 1.0)
                if first:
                    h_next, first = h, False
                done = length if h_step == left else done + h_step
            else:
                note_lowest(W)
                done += h_step
                h = min(1.3 * h, h_max)
                if done > length * (1.0 - 1e-9):
                    done = length
            for k in range(NL):
                W[AT_y + k] = W[AT_Y + k]
        h = h_next

        for i in range(N):
            if CONCENTRATION[i]:
                for k in range(i * LANES, (i + 1) * LANES):
                    if W[AT_y + k] < 0.0:  # as the paper's code does
                        W[AT_y + k] = 0.5 * W[AT_before + k]
        if DAE:
            W[AT_S_h2 : AT_S_h2 + LANES] = W[AT_y + NL - 2 * LANES : AT_y + NL - LANES]
            W[AT_S_H : AT_S_H + LANES] = W[AT_y + NL - LANES : AT_y + NL]
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
                trace[lane, n, :N] = W[AT_y + lane : AT_y + NL : LANES]
                for k in range(5):
                    trace[lane, n, N + k] = W[SOLVED[k] + lane]
        if day[n] < 0:
            continue
        for lane in range(LANES):
            row = outputs[lane, day[n]]
            left, least = solids[day[n], N], np.inf
            for i in range(N):
                value = W[AT_y + i * LANES + lane]
                left -= solids[day[n], i] * value
                if CONCENTRATION[i] and not value >= 0.0:
                    least = -1.0
            for j in range(5):
                row[j] = W[AT_y + STATE_OUTPUTS[j] * LANES + lane]
            row[5:7], row[7:9] = sums[:2, lane], sums[2:, lane] / parts
            least = min(least, left, 1.0 - W[AT_S_H + lane], row[5], row[6], row[7], row[8])
            if not failed[lane]:  # values after a failure mean nothing
                lowest[lane] = W[AT_lowest + lane]
            failed[lane] = failed[lane] or not least > 0.0
            if failed[lane]:
                row[:] = np.nan
            sums[:, lane] = 0.0
        parts = 0
        if failed.all():
            break
