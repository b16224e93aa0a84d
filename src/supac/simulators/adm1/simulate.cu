// Integration of the generated equations on a GPU: one thread a simulation, fixed steps as in
// driver.py. The generated part before this one defines N, SIZE, DAE, KINETICS, AT_… and the
// routines; rows in which a concentration becomes negative are simulated again by the processor.

#define OUTPUTS 9

// Solve the charge balance for S_H, and the stationary balance for S_h2.
__device__ __forceinline__ void settle(double* W, const double* constants, const double* nu,
                                       double D, double in_S_h2, double tolerance)
{
    W[AT_residual] = 1.0;
    begin_S_H(W, constants, nu, constants, 0.0, 0.0);
    #pragma unroll 1
    for (int i = 0; i < 1000; ++i) {
        newton_S_H(W, constants, nu, constants, 0.0, 0.0, tolerance);
        if (!(fabs(W[AT_residual]) > tolerance)) break;
    }
    if (DAE) inhibition(W);
    W[AT_residual] = 1.0;
    begin_S_h2(W, constants, nu, constants, D, in_S_h2);
    #pragma unroll 1
    for (int i = 0; i < 1000; ++i) {
        newton_S_h2(W, constants, nu, constants, D, in_S_h2, tolerance);
        if (!(fabs(W[AT_residual]) > tolerance)) break;
    }
    ions(W, constants);
    if (DAE) {
        W[AT_y + N - 2] = W[AT_S_h2];
        W[AT_y + N - 1] = W[AT_S_H];
    }
}

// Add share·h·∂f/∂t to f, for a feed that changes linearly during the step.
__device__ __forceinline__ void add_drift(double* W, const double* feed, const double* washed,
                                          double part, double share)
{
    const double dilution = share * part * (feed[N + 1 + N] - feed[N]);
    #pragma unroll
    for (int i = 0; i < N; ++i)
        W[AT_f + i] += share * part * (feed[N + 1 + i] - feed[i]) - dilution * washed[i] * W[AT_y + i];
}

// Square of the softly capped log-residual of an output.
__device__ __forceinline__ double squared_residual(double value, double log_observed)
{
    const double residual = fabs(log(fmax(value, 0.0) + 1e-8) - log_observed);
    const double rise = log1p(exp(6.0)) - log1p(exp(2.0 * (3.0 - residual)));
    const double capped = 0.5 * (1.0 + exp(-6.0)) * rise;
    return capped * capped;
}

// kinetics (KINETICS, n); outputs (n, days, 9) or null; squares (n): the sum of squared residuals
// of the measured outputs, NaN for a failed run; lowest (n): the lowest concentration.
extern "C" __global__ void __launch_bounds__(THREADS)
simulate(int n, int intervals, int days, const double* __restrict__ kinetics,
         const double* __restrict__ initial, const double* __restrict__ constants,
         const double* __restrict__ nu, const double* __restrict__ times,
         const double* __restrict__ feeds, const double* __restrict__ washed,
         const double* __restrict__ ions_in, const double* __restrict__ h2_in,
         const long long* __restrict__ day, const double* __restrict__ solids,
         const double* __restrict__ log_observed, double h_max, double transient,
         double tolerance, double* __restrict__ outputs, double* __restrict__ squares,
         double* __restrict__ lowest)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    double W[SIZE];
    #pragma unroll
    for (int k = 0; k < KINETICS; ++k) W[AT_kinetics + k] = kinetics[(size_t)k * n + row];
    #pragma unroll
    for (int i = 0; i < N; ++i) W[AT_y + i] = initial[i];
    W[AT_S_H] = initial[N];
    W[AT_S_h2] = initial[N + 1];
    W[AT_S_cation] = initial[N + 2];
    W[AT_S_anion] = initial[N + 3];
    W[AT_lowest] = INFINITY;
    ions(W, constants);

    double flow = 0.0, methane = 0.0, p_ch4 = 0.0, p_co2 = 0.0, total = 0.0, least_seen = INFINITY;
    int parts = 0;
    bool failed = false;
    #pragma unroll 1
    for (int j = 0; j < intervals; ++j) {
        const double length = times[j + 1] - times[j];
        const double* feed = feeds + (size_t)j * 2 * (N + 1);
        if (DAE && j == 0) {
            settle(W, constants, nu, feed[N], h2_in[0], tolerance);
            prepare(W, constants, nu);
        }
        if (!DAE) {
            inhibition(W);
            prepare(W, constants, nu);
        }
        const bool early = times[j] - times[0] < transient;
        int count = 0;
        double stretch = 1.0;
        if (length > 0.0 && early) {
            double sum = 0.0, h = h_max / 80.0;
            #pragma unroll 1
            while (sum < length * (1.0 - 1e-9)) {
                sum += h;
                h = fmin(1.3 * h, h_max);
                ++count;
            }
            stretch = length / sum;
        } else if (length > 0.0) {
            count = (int)fmax(1.0, ceil(length / h_max * (1.0 - 1e-9)));
            stretch = length / count;
        }
        const int steps = count + (early || DAE || count == 0 ? 0 : 1);
        double done = 0.0, growing = h_max / 80.0;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
            double h = stretch;
            bool euler = false;
            if (early) {
                h = growing * stretch;
                growing = fmin(1.3 * growing, h_max);
            } else if (!DAE) {
                euler = k == 0;
                if (k == 0) h = 0.06 * stretch;
                else if (k == 1 && count > 1) h = 0.45 * stretch;
                else h = count > 1 ? (length - 0.51 * stretch) / (count - 1) : length - 0.06 * stretch;
            }
            const double g = (euler ? 1.0 : 2.0) / h;
            double inflow_now[N + 1], inflow_later[N + 1];
            #pragma unroll
            for (int i = 0; i <= N; ++i) {
                inflow_now[i] = feed[i];
                inflow_later[i] = feed[N + 1 + i];
                if (INTERPOLATED) {
                    const double slope = (feed[N + 1 + i] - feed[i]) / length;
                    inflow_now[i] = feed[i] + slope * done;
                    inflow_later[i] = inflow_now[i] + slope * h;
                }
            }
            factorise(W, constants, nu, inflow_now, inflow_now[N], g);
            if (INTERPOLATED) add_drift(W, feed, washed, h / length, 0.5);
            stage_1(W);
            done += h;
            if (euler) {
                #pragma unroll
                for (int i = 0; i < N; ++i) W[AT_y + i] += W[AT_K1 + i];
                continue;
            }
            if (INTERPOLATED) add_drift(W, feed, washed, h / length, 1.0);
            stage_2(W, g);
            stage_3(W, constants, nu, inflow_later, inflow_later[N], g);
            stage_4(W, constants, nu, inflow_later, inflow_later[N], g);
        }
        if (DAE) {
            W[AT_S_h2] = W[AT_y + N - 2];
            W[AT_S_H] = W[AT_y + N - 1];
        } else {
            const double kept = exp(-feed[N + 1 + N] * length);
            W[AT_S_cation] = ions_in[2 * j] + kept * (W[AT_S_cation] - ions_in[2 * j]);
            W[AT_S_anion] = ions_in[2 * j + 1] + kept * (W[AT_S_anion] - ions_in[2 * j + 1]);
            settle(W, constants, nu, feed[N + 1 + N], h2_in[j], tolerance);
        }
        gas(W, constants);
        flow += W[AT_gas] * length;
        methane += W[AT_gas + 1] * length;
        p_ch4 += W[AT_gas + 2];
        p_co2 += W[AT_gas + 3];
        ++parts;
        const int d = (int)day[j];
        if (d < 0) continue;

        const double* weights = solids + (size_t)d * (N + 1);
        double left = weights[N], least = INFINITY;
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            left -= weights[i] * W[AT_y + i];
            if (CONCENTRATION[i] && !(W[AT_y + i] >= 0.0)) least = -1.0;
        }
        const double values[OUTPUTS] = {
            W[AT_y + STATE_OUTPUT_0], W[AT_y + STATE_OUTPUT_1], W[AT_y + STATE_OUTPUT_2],
            W[AT_y + STATE_OUTPUT_3], W[AT_y + STATE_OUTPUT_4], flow, methane, p_ch4 / parts,
            p_co2 / parts,
        };
        #pragma unroll
        for (int k = 5; k < OUTPUTS; ++k) least = values[k] >= least ? least : values[k];
        least = left >= least ? least : left;
        least = 1.0 - W[AT_S_H] >= least ? least : 1.0 - W[AT_S_H];
        least_seen = W[AT_lowest];
        failed = !(least > 0.0);
        if (failed) break;
        #pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) {
            const double seen = log_observed[(size_t)d * OUTPUTS + k];
            if (seen == seen) total += squared_residual(values[k], seen);
            if (outputs) outputs[((size_t)row * days + d) * OUTPUTS + k] = values[k];
        }
        flow = methane = p_ch4 = p_co2 = 0.0;
        parts = 0;
    }
    squares[row] = failed ? NAN : total;
    lowest[row] = least_seen;
}
