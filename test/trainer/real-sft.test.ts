import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shuffledOrder } from '../../trainer/learn/data/orders.ts';
import { holdOut } from '../../trainer/learn/data/training-data.ts';
import { supervisedLine } from '../../trainer/learn/data/training-files.ts';
import { cutRow } from '../../trainer/learn/data/training-rows.ts';
import { sft } from '../../trainer/learn/sft.ts';
import { closeTrainable, trainable } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';

const LONGEST = 256;

/** Needs TROUPE_DATA: conversations of an agent of an airline with its customers. */
describe.skipIf(!process.env.TROUPE_DATA)('supervised fine-tuning on recorded turns', () => {
  it('a small model that has never read anything says held-out turns far better after thirty steps', async () => {
    const file = join(process.env.TROUPE_DATA!, 'data/tau-bench/gpt-4o-airline.json');
    const runs = JSON.parse(await readFile(file, 'utf8')) as { task_id: number; traj: ChatMessage[] }[];
    // The instructions are the same in all of them and longer than a quick test has time for.
    const chats = runs
      .slice(0, 60)
      .map(({ task_id, traj }) => ({ task: String(task_id), messages: traj.filter(({ role }) => role !== 'system') }));
    const render = chatTemplate(
      CHATML_TEMPLATE,
      openTokenizer(trainBpe([], { vocabSize: 259, special: CHATML_SPECIAL, roles: CHATML_ROLES })),
    ).render;
    const tokenizer = openTokenizer(
      trainBpe(
        chats.map(({ messages }) => render(messages)),
        { vocabSize: 1024, special: CHATML_SPECIAL, roles: CHATML_ROLES },
      ),
    );
    const config: ModelConfig = {
      model_type: 'qwen2',
      hidden_size: 96,
      intermediate_size: 256,
      num_hidden_layers: 2,
      num_attention_heads: 3,
      num_key_value_heads: 1,
      vocab_size: tokenizer.vocabSize,
      max_position_embeddings: LONGEST,
      rms_norm_eps: 1e-6,
      rope_theta: 10000,
      tie_word_embeddings: true,
      bos_token_id: null,
      eos_token_id: tokenizer.eos,
      pad_token_id: tokenizer.pad,
    };
    const read = { tokenizer, template: chatTemplate(CHATML_TEMPLATE, tokenizer), eosIds: [tokenizer.eos!], config };
    const all = chats.flatMap(({ task, messages }) => {
      const row = cutRow(supervisedLine({ messages }, read), LONGEST);
      return row ? [{ ...row, task }] : [];
    });
    const { rows, heldOut } = holdOut(all, 0.2, { problem: ({ task }) => task, seed: 0 });
    const model = trainable(config, initialWeights(config, 0), { threads: 1 });
    const { curves } = await sft(
      model,
      rows,
      {
        steps: 30,
        order: shuffledOrder(rows.length, { batch: 8 }, 0),
        mean: 'token-mean',
        entropy: 0,
        schedule: () => 4e-3,
        adam: ADAM,
        heldOut,
      },
      { evaluateEvery: 1 },
    );
    await closeTrainable(model);
    const losses = curves.heldOut.map(({ loss }) => loss);
    expect(curves.loss[0]).toBeGreaterThan(0.9 * Math.log(config.vocab_size));
    expect(losses.at(-1)).toBeLessThan(0.6 * losses[0]!);
    expect(curves.heldOut.at(-1)!.metrics.accuracy).toBeGreaterThan(0.2);
  }, 60_000);
});
