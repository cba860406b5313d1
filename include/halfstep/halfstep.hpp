#pragma once

// Everything that a program which trains needs: policies, layers, optimizers, data, the trainer.

#include <halfstep/data/dataset.hpp>
#include <halfstep/data/loader.hpp>
#include <halfstep/data/order.hpp>
#include <halfstep/data/permutation.hpp>
#include <halfstep/error.hpp>
#include <halfstep/evidence/diagnose.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/convolution.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/dropout.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/mean_squared_error.hpp>
#include <halfstep/nn/pooling.hpp>
#include <halfstep/nn/recompute.hpp>
#include <halfstep/nn/relu.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/nn/swiglu.hpp>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/schedule.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/policy.hpp>
#include <halfstep/trainer.hpp>
