/* A model-exchange FMU of FMI 2 with every kind of event: a ball that bounces (a state event), a
   count of whole seconds (a time event) and a lag behind an input that may jump. */
#include <math.h>
#include <stdlib.h>
#include "fmi2FunctionTypes.h"

enum { G, RESTITUTION, TAU, U, H, V, X, DER_H, DER_V, DER_X, COUNT, SIZE };

typedef struct {
    double value[SIZE];
    double time;
    const fmi2CallbackFunctions *callbacks;
} Ball;

static void start(Ball *ball) {
    static const double values[SIZE] = {[G] = 9.81, [RESTITUTION] = 0.7, [TAU] = 1.0, [H] = 1.0};
    for (int i = 0; i < SIZE; i++) ball->value[i] = values[i];
    ball->time = 0.0;
}

const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }

fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                              const fmi2CallbackFunctions *callbacks, fmi2Boolean visible,
                              fmi2Boolean logging) {
    Ball *ball = calloc(1, sizeof(Ball));
    ball->callbacks = callbacks;
    start(ball);
    return ball;
}

void fmi2FreeInstance(fmi2Component c) { free(c); }

fmi2Status fmi2Reset(fmi2Component c) {
#ifndef FORGETFUL
    start(c);
#endif
    return fmi2OK;
}

fmi2Status fmi2Terminate(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean defined, fmi2Real tolerance, fmi2Real t,
                               fmi2Boolean stops, fmi2Real stop) { return fmi2OK; }
fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2ExitInitializationMode(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2EnterEventMode(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { return fmi2OK; }

fmi2Status fmi2SetTime(fmi2Component c, fmi2Real time) {
    ((Ball *)c)->time = time;
    return fmi2OK;
}

fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Real v[]) {
    for (size_t i = 0; i < n; i++) v[i] = ((Ball *)c)->value[r[i]];
    return fmi2OK;
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Real v[]) {
    for (size_t i = 0; i < n; i++) ((Ball *)c)->value[r[i]] = v[i];
    return fmi2OK;
}

fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = ((Ball *)c)->value[H + i];
    return fmi2OK;
}

fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n) {
    for (size_t i = 0; i < n; i++) ((Ball *)c)->value[H + i] = x[i];
    return fmi2OK;
}

fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = 1.0;
    return fmi2OK;
}

fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real dx[], size_t n) {
    Ball *ball = c;
    if (ball->value[TAU] <= 0.0) {
        ball->callbacks->logger(ball->callbacks->componentEnvironment, "ball", fmi2Error, "logError",
                                "tau is %g", ball->value[TAU]);
        return fmi2Error;
    }
    dx[0] = ball->value[V];
    dx[1] = -ball->value[G];
    dx[2] = (ball->value[U] - ball->value[X]) / ball->value[TAU];
    return fmi2OK;
}

fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real z[], size_t n) {
    z[0] = ((Ball *)c)->value[H];
    return fmi2OK;
}

fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean prior, fmi2Boolean *event,
                                       fmi2Boolean *terminate) {
    *event = *terminate = fmi2False;
    return fmi2OK;
}

fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info) {
    Ball *ball = c;
    if (ball->value[H] <= 1e-9 && ball->value[V] < 0.0) {
        ball->value[H] = 1e-12;
        ball->value[V] *= -ball->value[RESTITUTION];
    }
    ball->value[COUNT] = floor(ball->time + 1e-9);
    info->newDiscreteStatesNeeded = info->terminateSimulation = fmi2False;
    info->nominalsOfContinuousStatesChanged = fmi2False;
    info->valuesOfContinuousStatesChanged = fmi2True;
    info->nextEventTimeDefined = fmi2True;
    info->nextEventTime = ball->value[COUNT] + 1.0;
    return fmi2OK;
}

/* FMPy wants all functions to be there. */
#define ABSENT(name) fmi2Status name() { return fmi2Error; }
ABSENT(fmi2SetDebugLogging)
ABSENT(fmi2GetInteger)
ABSENT(fmi2SetInteger)
ABSENT(fmi2GetBoolean)
ABSENT(fmi2SetBoolean)
ABSENT(fmi2GetString)
ABSENT(fmi2SetString)
ABSENT(fmi2GetFMUstate)
ABSENT(fmi2SetFMUstate)
ABSENT(fmi2FreeFMUstate)
ABSENT(fmi2SerializedFMUstateSize)
ABSENT(fmi2SerializeFMUstate)
ABSENT(fmi2DeSerializeFMUstate)
ABSENT(fmi2GetDirectionalDerivative)
