/** Proof that SGLang on a processor serves what was trained here, as `served-outside.ts` says. */
import { inVenv, type Served, startServer } from './served-engine.ts';
import { servedBy } from './served-outside.ts';

const sglang: Served = {
  tokenIds: 'sglang',
  find: (env) =>
    inVenv(env, { folder: 'sglang-server', name: 'sglang', program: 'python', cost: 'about 5 minutes, 7 GB' }),
  start({ program, model, ...to }) {
    const args = [
      ...['-m', 'sglang.launch_server', '--model-path', model, '--host', '127.0.0.1', '--port', String(to.port)],
      ...['--served-model-name', 'tiny', '--device', 'cpu', '--dtype', 'float32', '--disable-cuda-graph'],
      ...['--attention-backend', 'torch_native', '--sampling-backend', 'pytorch', '--disable-overlap-schedule'],
      ...[
        '--mem-fraction-static',
        '0.1',
        '--max-total-tokens',
        '8192',
        '--tool-call-parser',
        'hermes',
        '--enable-lora',
        '--max-lora-rank',
        '8',
      ],
      ...['--lora-backend', 'torch_native', '--lora-target-modules'],
      ...['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    ];
    return startServer(program, args, { SGLANG_USE_CPU_ENGINE: '1' }, to);
  },
  weights: async (port) =>
    ((await (await fetch(`http://127.0.0.1:${port}/get_model_info`)).json()) as { model_path: string }).model_path,
  weightsAtStart: (model) => model,
  // "logprobs are not supported in streaming mode"
  refuses: (episode) => episode === 'responses-streamed',
  // Its log-probabilities do not count what top_p cuts off.
  otherwise: (episode) =>
    /^(messages|responses)/.test(episode) ? 'no_token_ids' : episode.startsWith('cut') ? 'no_logprobs' : undefined,
};

export const proof = servedBy('sglang-serves', sglang);
