/**
 * A sampling process whose model says what a script makes of its prompt: process, socket, tokenizer and chat template are the real ones,
 * only the draws are not. Registered as a policy, so that a gateway finds it as any other.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type PolicyServers, registeredPolicyServers } from '../../../api/gateway/policy-servers.ts';
import type { Db } from '../../../store/db/pool.ts';
import { registerProcess } from '../../../store/queue/jobs/processes.ts';
import { newModelDirectory } from '../../../trainer/model/model-directory.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../../trainer/model/tokens/chatml.ts';
import { openTokenizer, type Tokenizer } from '../../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../../trainer/model/tokens/tokenizer-training.ts';
import { startInfer } from '../../../trainer/sample/infer.ts';
import { connectInfer } from '../../../trainer/sample/infer-client.ts';
import { tinyConfig } from '../../trainer/tiny-checkpoint.ts';

export type ScriptedPolicy = {
  readonly policyServers: PolicyServers;
  readonly tokenizer: Tokenizer;
  readonly checkpoint: string;
  /** Takes the process away; it can be started again. */
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
};

/**
 * `say` is given the prompt as text and the number of the candidate. The policy is registered in `db` as `policy`. `grows`: it reports
 * each token as it is drawn, as a real policy does.
 */
export async function scriptedPolicy(
  db: Db,
  {
    policy,
    say,
    grows = false,
  }: {
    readonly policy: string;
    readonly say: (prompt: string, candidate: number) => string;
    readonly grows?: boolean;
  },
): Promise<ScriptedPolicy> {
  const root = await mkdtemp(join(tmpdir(), 'troupe-scripted-'));
  const socket = join(root, 'infer.sock');
  const files = trainBpe(['a conversation about tools'], {
    vocabSize: 300,
    special: CHATML_SPECIAL,
    roles: CHATML_ROLES,
  });
  const tokenizer = openTokenizer(files);
  const end = tokenizer.id('<|im_end|>') as number;
  const { dir, id } = await newModelDirectory(
    join(root, 'model'),
    {
      config: { ...tinyConfig, vocab_size: 300, max_position_embeddings: 4096, bos_token_id: end, eos_token_id: end },
      tokenizer: files,
      chatTemplate: CHATML_TEMPLATE,
      seed: 1,
    },
    { durable: false },
  );
  let leave = async () => {};
  let stop = async () => {};
  const start = async () => {
    const infer = await startInfer({ socket, threads: 1 }, () => ({
      sample: async (requests) =>
        requests.map(({ promptIds, n, maxTokens, ended, drew }) =>
          Array.from({ length: n }, (_, candidate) => {
            const whole = [...tokenizer.encode(say(tokenizer.decode(promptIds), candidate)), end];
            const stopped = whole.findIndex((_, i) => ended?.(whole.slice(0, i + 1)) === true) + 1;
            const tokenIds = whole.slice(0, Math.min(stopped || whole.length, maxTokens));
            for (const i of grows ? tokenIds.keys() : []) drew?.(candidate, tokenIds.slice(0, i + 1));
            const finish = stopped > 0 || tokenIds.length === whole.length ? ('stop' as const) : ('length' as const);
            return { tokenIds, logprobs: tokenIds.map((_, i) => -0.5 - i), finish };
          }),
        ),
      logprobs: async () => [],
      values: async () => [],
      setWeights: () => {},
      close: () => {},
    }));
    await infer.load({ dir, name: policy });
    leave = await registerProcess(db, { processId: `infer-${policy}`, role: 'infer', policy, address: socket });
    stop = async () => {
      await leave();
      await infer.close();
    };
  };
  await start();
  const policyServers = registeredPolicyServers(db, connectInfer);
  return {
    policyServers,
    tokenizer,
    checkpoint: id,
    start,
    stop: () => stop(),
    close: async () => {
      policyServers.close();
      await stop();
      await rm(root, { recursive: true, force: true });
    },
  };
}
