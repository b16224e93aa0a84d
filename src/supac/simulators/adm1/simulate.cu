// Integration of the generated equations on a GPU: one thread a simulation, the steps that cuda.py
// lists. The generated part before this one defines N, SIZE, SHARED, DAE, AT_… and the routines.
// Rows in which a concentration becomes negative are simulated again by the processor.
//
// W is an array of the thread, in registers. S has what is read often, quantity q of a thread at
// q·THREADS of the shared memory; F is the same memory, for the factors of a step. What is the same for all threads is an argument of the kernel, or
// in the row of its interval, which each warp copies to shared memory (ROW). Threads are few where
// a batch is small: what the next interval and the next step need is read ahead.

#define OUTPUTS 9
#define SETTLING 1000
#define IMPOSSIBLE 2
#define ROW (FED * (N + 1) + 8)
#define AHEAD ((ROW + WARP - 1) / WARP)

// The same for all simulations.
struct Same {
    double constants[CONSTANTS];
    double nu[COEFFICIENTS];
    double initial[N + 4];
    double washed[N];
    double solids[N];
};

// Solve the charge balance for S_H, and the stationary balance for S_h2; in the variant split they
// do not depend on each other, and are solved side by side.
__device__ __forceinline__ void settle(double* W, double* S, const double* constants,
                                       const double* nu, double D, double in_S_h2,
                                       double tolerance, bool failed)
{
    W[AT_residual_S_H] = W[AT_residual_S_h2] = 1.0;
    begin_S_H(W, S, constants, nu, constants, 0.0, 0.0);
    if (!DAE) begin_S_h2(W, S, constants, nu, constants, D, in_S_h2);
    #pragma unroll 1
    for (int i = 0; i < SETTLING; ++i) {
        newton_S_H(W, S, constants, nu, constants, 0.0, 0.0, tolerance);
        if (!DAE) newton_S_h2(W, S, constants, nu, constants, D, in_S_h2, tolerance);
        bool goes_on = fabs(W[AT_residual_S_H]) > tolerance;
        if (!DAE) goes_on = goes_on || fabs(W[AT_residual_S_h2]) > tolerance;
        if (!any_of_warp(!failed && goes_on)) break;
    }
    if (DAE) {
        inhibition(W, S);
        begin_S_h2(W, S, constants, nu, constants, D, in_S_h2);
        #pragma unroll 1
        for (int i = 0; i < SETTLING; ++i) {
            newton_S_h2(W, S, constants, nu, constants, D, in_S_h2, tolerance);
            if (!any_of_warp(!failed && fabs(W[AT_residual_S_h2]) > tolerance)) break;
        }
    }
    ions(W, S, constants);
    if (DAE) {
        W[AT_y + N - 2] = W[AT_S_h2];
        W[AT_y + N - 1] = W[AT_S_H];
    }
}

// Add share·h·∂f/∂t to a vector, for a feed that changes linearly during the step.
__device__ __forceinline__ void add_drift(double* W, const double* now, const double* later,
                                          const double* washed, double share, int at)
{
    #pragma unroll
    for (int i = 0; i < N; ++i)
        W[at + i] += share * (later[i] - now[i] - washed[i] * (later[N] - now[N]) * W[AT_y + i]);
}

// Square of the softly capped log-residual of an output: log(1 + e⁶) − log(1 + e⁶·(ratio to the
// measurement, or its inverse, at most 1)²), scaled.
__device__ __forceinline__ double squared_residual(double value, double observed)
{
    const double predicted = (value > 0.0 ? value : 0.0) + 1e-8;
    const bool less = predicted < observed;
    const double low = less ? predicted : observed, high = less ? observed : predicted;
    const double ratio = low * reciprocal(high);
    const double rise = 6.0024756851377301 - logarithm(fma(403.42879349273511 * ratio, ratio, 1.0));
    const double capped = 0.50123937608833317 * rise;
    return capped * capped;
}

// x (n, 30): parameters. rows (intervals + 1, ROW): inflow at the beginning, and at the end if
// INTERPOLATED; length; part of the ions that stays, their inflow; inflow of S_h2; day that is
// completed, or −1; number of the step after the last. steps (…, 4): g, begin and length as parts
// of the interval. marks (…, 4): 1 for a step of first order, then zeros. observed (days, 9):
// measurements, or NaN. limits (days): solids of the feed. outputs (n, days, 9), or null.
// squares (n): the sum of squared residuals, NaN for a failed run. doubtful (n): 1 if a concentration
// became negative, 2 if parameters are none.
extern "C" __global__ void __launch_bounds__(THREADS)
simulate(const __grid_constant__ Same same, int n, int intervals, int days,
         const double* __restrict__ x, const double* __restrict__ rows,
         const double* __restrict__ steps, const int* __restrict__ marks,
         const double* __restrict__ observed, const double* __restrict__ limits, double tolerance,
         double* __restrict__ outputs, double* __restrict__ squares, int* __restrict__ doubtful)
{
    SHARED_MEMORY(memory, SHARED * THREADS + (THREADS / WARP) * (ROW + 2 * (N + 1)));
    const int lane = threadIdx.x % WARP, place = blockIdx.x * THREADS + threadIdx.x;
    const int run = place < n ? place : n - 1;
    double* S = memory + threadIdx.x;
    double* row = memory + SHARED * THREADS + (threadIdx.x / WARP) * (ROW + 2 * (N + 1));
    double* now = INTERPOLATED ? row + ROW : row;
    double* later = INTERPOLATED ? now + N + 1 : now;
    const double* span = row + FED * (N + 1);
    const double* constants = same.constants;
    const double* nu = same.nu;
    double W[SIZE];
    read_kinetics(S, x + (size_t)run * PARAMETERS);
    bool possible = true;
    #pragma unroll
    for (int i = 0; i < PARAMETERS; ++i) {
        const double value = x[(size_t)run * PARAMETERS + i];
        possible = possible && value > 0.0 && value < INFINITY;
    }
    #pragma unroll
    for (int i = 0; i < N; ++i) W[AT_y + i] = same.initial[i];
    W[AT_S_H] = same.initial[N];
    W[AT_S_h2] = same.initial[N + 1];
    W[AT_S_cation] = same.initial[N + 2];
    W[AT_S_anion] = same.initial[N + 3];
    ions(W, S, constants);

    double ahead[AHEAD];
    #pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
        const int at = i * WARP + lane;
        ahead[i] = rows[at < ROW ? at : 0];
    }
    double g = steps[0];
    int first_order = marks[0], zero_1 = marks[1], zero_2 = marks[2], zero_3 = marks[3], k = 0;
    double flow = 0.0, methane = 0.0, p_ch4 = 0.0, p_co2 = 0.0, total = 0.0;
    int parts = 0, signs = 0;
    int suspect = possible ? 0 : IMPOSSIBLE;
    bool failed = !possible;
    #pragma unroll 1
    for (int j = 0; j < intervals; ++j) {
        wait_for_warp();
        #pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const int at = i * WARP + lane;
            if (at < ROW) row[at] = ahead[i];
            ahead[i] = rows[(size_t)(j + 1) * ROW + (at < ROW ? at : 0)];
        }
        wait_for_warp();
        if (DAE && j == 0) {
            settle(W, S, constants, nu, row[N], span[4], tolerance, failed);
            prepare(W, S, constants, nu);
        }
        if (!DAE) {
            inhibition(W, S);
            prepare(W, S, constants, nu);
        }
        const int end = (int)span[6];
        if (!DAE && first_order && k < end) {
            factorise(W, S, S, constants, nu, now, now[N], g);
            stage_1(W, S, S, constants, nu, now, now[N], g);
            #pragma unroll
            for (int i = 0; i < N; ++i) W[AT_y + i] += W[AT_gap + i];
            ++k;
            g = steps[(size_t)k * 4];
            first_order = 0;
        }
        #pragma unroll 1
        while (k < end) {
            if (INTERPOLATED) {
                wait_for_warp();
                for (int i = lane; i <= N; i += WARP) {
                    const double change = row[N + 1 + i] - row[i];
                    now[i] = row[i] + steps[(size_t)k * 4 + 1] * change;
                    later[i] = now[i] + steps[(size_t)k * 4 + 2] * change;
                }
                wait_for_warp();
            }
            ++k;
            const double g_next = steps[(size_t)k * 4];
            const int next = marks[(size_t)k * 4], next_1 = marks[(size_t)k * 4 + 1];
            const int next_2 = marks[(size_t)k * 4 + 2], next_3 = marks[(size_t)k * 4 + 3];
            // Zeros that the compiler does not know, and their sums: shared memory is read anew by
            // each evaluation and each solution, and does not occupy registers in between.
            double *S_1 = S + zero_1, *S_3 = S + zero_2, *S_4 = S + zero_3;
            double *F_2 = S + zero_2, *F_3 = S, *F_4 = S + (zero_2 + zero_3);
            const double *later_3 = later + zero_2, *later_4 = later + zero_3;
            factorise(W, S_1, S_1, constants, nu, now + zero_1, now[N + zero_1], g);
            if (INTERPOLATED) add_drift(W, now, later, same.washed, 0.5, AT_f);
            stage_1(W, S_1, S_1, constants, nu, now, now[N], g);
            if (INTERPOLATED) add_drift(W, now, later, same.washed, 0.5 / g, AT_gap);
            stage_2(W, S_1, F_2, constants, nu, now, now[N], g);
            stage_3(W, S_3, F_3, constants, nu, later_3, later_3[N], g);
            stage_4(W, S_4, F_4, constants, nu, later_4, later_4[N], g);
            #pragma unroll
            for (int i = 0; i < N; ++i)
                if (CONCENTRATION[i]) signs |= high_word(W[AT_y + i]);
            g = g_next;
            first_order = next;
            zero_1 = next_1;
            zero_2 = next_2;
            zero_3 = next_3;
        }
        const double length = span[0];
        if (DAE) {
            W[AT_S_h2] = W[AT_y + N - 2];
            W[AT_S_H] = W[AT_y + N - 1];
        } else {
            W[AT_S_cation] = span[2] + span[1] * (W[AT_S_cation] - span[2]);
            W[AT_S_anion] = span[3] + span[1] * (W[AT_S_anion] - span[3]);
            settle(W, S, constants, nu, row[N], span[4], tolerance, failed);
        }
        gas(W, S, constants);
        flow += W[AT_gas] * length;
        methane += W[AT_gas + 1] * length;
        p_ch4 += W[AT_gas + 2];
        p_co2 += W[AT_gas + 3];
        ++parts;
        const int day = (int)span[5];
        if (day < 0) continue;

        double left = limits[day], least = INFINITY;
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            left -= same.solids[i] * W[AT_y + i];
            if (CONCENTRATION[i] && !(W[AT_y + i] >= 0.0)) least = -1.0;
        }
        if (!failed && (signs < 0 || least < 0.0)) suspect = 1;
        const double share = reciprocal((double)parts);
        const double values[OUTPUTS] = {
            W[AT_y + STATE_OUTPUT_0], W[AT_y + STATE_OUTPUT_1], W[AT_y + STATE_OUTPUT_2],
            W[AT_y + STATE_OUTPUT_3], W[AT_y + STATE_OUTPUT_4], flow, methane, p_ch4 * share,
            p_co2 * share,
        };
        #pragma unroll
        for (int i = 5; i < OUTPUTS; ++i) least = values[i] >= least ? least : values[i];
        least = left >= least ? least : left;
        least = 1.0 - W[AT_S_H] >= least ? least : 1.0 - W[AT_S_H];
        failed = failed || !(least > 0.0);
        if (!any_of_warp(!failed)) break;
        #pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) {
            const double seen = observed[(size_t)day * OUTPUTS + i];
            const double square = squared_residual(values[i], seen == seen ? seen : 1.0);
            total += seen == seen ? square : 0.0;
        }
        if (outputs && !failed && place < n)
            #pragma unroll
            for (int i = 0; i < OUTPUTS; ++i)
                outputs[((size_t)run * days + day) * OUTPUTS + i] = values[i];
        flow = methane = p_ch4 = p_co2 = 0.0;
        parts = 0;
    }
    if (place < n) {
        squares[run] = failed ? NAN : total;
        doubtful[run] = suspect;
    }
}
