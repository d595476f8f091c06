/** What the demo begins with: a model with random weights, released, and the work of its teachers. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { recordCheckpoint } from '../../api/operations/checkpoints/record.ts';
import { TroupeError } from '../../errors.ts';
import { MODEL_SPEC } from '../../examples/coder-verifier/model-spec.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { episodesTagged, evaluateEpisodes } from '../../store/evaluate/judging/evaluate.ts';
import { recordRelease, releasesOf } from '../../store/loop/release/releases.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { newModelDirectory } from '../../trainer/model/model-directory.ts';
import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import type { Context } from '../context.ts';
import { VERSION } from '../version.ts';
import { type DemoOptions, POLICY, VERIFIER } from './demo-plans.ts';

/** A model with random weights as the first release, so that `troupe up` serves it and the first gate has an incumbent. */
export async function firstRelease(context: Context, { seed, verifier }: DemoOptions): Promise<void> {
  const spec = MODEL_SPEC;
  const model = await newModelDirectory(join(context.home.checkpoints, `new-${seed}`), {
    config: {
      ...spec.config,
      bos_token_id: null,
      eos_token_id: spec.special_tokens.indexOf(spec.eos_token),
      pad_token_id: spec.special_tokens.indexOf(spec.pad_token),
    },
    tokenizer: wordTokenizer(spec.words, spec.special_tokens, { eos: spec.eos_token, pad: spec.pad_token }),
    chatTemplate: spec.chat_template,
    seed: seed * 2 + 1,
    codeVersion: VERSION,
  });
  const { id } = model;
  await recordCheckpoint(context, model.dir, POLICY);
  const policies = { [POLICY]: id, ...(verifier === 'frozen' ? { [VERIFIER]: id } : {}) };
  await release(context, `seed-${seed}-new`, policies, 'random weights');
}

async function release(
  { log, now }: Context,
  release_id: string,
  policies: Readonly<Record<string, string>>,
  reason: string,
): Promise<void> {
  const time = now().toISOString();
  await recordRelease(log, { release_id, policies, teams: {}, reason, by: 'demo', source: '/demo', time });
}

/** Gives the verifier, where it has a policy of its own, the weights of the team. */
export async function followTeam(context: Context, after: string): Promise<void> {
  await waitProjected(context.db, context);
  const team = (await releasesOf(context.db)).at(-1)!.policies[POLICY]!;
  await release(context, `verifier-after-${after}`, { [POLICY]: team, [VERIFIER]: team }, 'as the team');
  await waitProjected(context.db, context);
}

/** Imports what faulty teachers did. Returns the share of their answers that is right. */
export async function importLessons({ db, log, book, artifacts }: Context, file: string): Promise<number | null> {
  const imported = await importFiles([file], { log, book, artifacts });
  await rm(file);
  if (imported.events.rejected > 0)
    throw new TroupeError('internal', `Demonstrations were rejected: ${JSON.stringify(imported.errors[0])}`);
  await waitProjected(db, { log });
  return (await evaluateEpisodes(db, await episodesTagged(db, { phase: 'teach', role: 'coder' }))).pass_at_1;
}
