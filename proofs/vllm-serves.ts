/** Proof that vLLM on a processor serves what was trained here, as `served-outside.ts` says. */
import { inVenv, type Served, startServer } from './served-engine.ts';
import { servedBy } from './served-outside.ts';

const vllm: Served = {
  tokenIds: 'vllm',
  find: (env) => inVenv(env, { folder: 'vllm-server', name: 'vllm', program: 'vllm', cost: 'about 5 minutes, 7 GB' }),
  start({ program, model, ...to }) {
    const args = [
      ...['serve', model, '--host', '127.0.0.1', '--port', String(to.port), '--served-model-name', 'tiny'],
      ...['--dtype', 'float32', '--enforce-eager', '--max-num-seqs', '16', '--max-model-len', '512'],
      ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes', '--logprobs-mode', 'processed_logprobs'],
      ...['--enable-lora', '--max-lora-rank', '8', '--max-loras', '2'],
    ];
    const settings = { VLLM_SERVER_DEV_MODE: '1', VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True', VLLM_NO_USAGE_STATS: '1' };
    return startServer(program, args, { ...settings, VLLM_CPU_KVCACHE_SPACE: '1' }, to);
  },
  weights: async (port) =>
    ((await (await fetch(`http://127.0.0.1:${port}/weight_info`)).json()) as { weight_version: string }).weight_version,
  weightsAtStart: () => 'default',
  refuses: () => false,
  otherwise: (episode) =>
    // No log-probabilities are asked for of a stream of the Responses API.
    episode.startsWith('messages') ? 'no_token_ids' : episode === 'responses-streamed' ? 'no_logprobs' : undefined,
};

export const proof = servedBy('vllm-serves', vllm);
