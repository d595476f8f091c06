/**
 * Samples that tinker-cookbook captures (tinker_cookbook/capture/exporter.py): a record is a call of the sampling client, in tokens alone, and its
 * scope says to which trajectory of which run it belongs.
 */
import { canonicalJson, hashId, isRecord, type JsonObject } from '../../events/json.ts';
import { emitterFor } from '../kit/native.ts';
import { format, Reader, unreadable } from '../kit/reader.ts';
import { isReal, isTokens } from '../kit/rollout-calls.ts';
import { timeOfSeconds } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'tinker-capture';
const emit = emitterFor(NAME);

const isSample = (one: JsonObject): boolean =>
  one.kind === 'sample' && Array.isArray(one.samples) && isRecord(one.scope);

export const tinkerCapture = format({
  name: NAME,
  summary:
    'Samples that tinker-cookbook captures {kind: "sample", scope, prompt_tokens, samples: [{tokens, logprobs}]}',
  called: 'a captured sample',
  recognises: isSample,
  restates: ['task.defined', 'episode.started', 'agent.defined'],
  convert(row, record) {
    if (!isSample(row.native))
      return unreadable('bad_shape', '', 'a record {kind: "sample", scope, samples}', row.native);
    const scope = row.record('scope')!;
    const { purpose: _, ...run } = scope;
    // Calls of one trajectory have equal scopes; outside any scope each is a run of its own.
    const trace = new Trace(emit, NAME, record, Object.keys(run).length > 0 ? hashId(NAME, run) : undefined);
    const samples = row.list('samples', 'a list of sequences').map((one) => new Reader(isRecord(one) ? one : {}));
    const at = timeOfSeconds(row.number('created_at'));
    const [prompt, session, seq] = [row.any('prompt_tokens'), row.any('sampling_session_id'), row.any('seq_id')];
    const callId = hashId(NAME, session ?? null, seq ?? canonicalJson(row.native), record.ordinal);
    trace.add(
      'generation.completed',
      [callId],
      {
        call_id: callId,
        choices: samples.map((sample, index) => {
          const [ids, logprobs] = [sample.any('tokens'), sample.any('logprobs')];
          const fits =
            isTokens(ids) && Array.isArray(logprobs) && logprobs.length === ids.length && logprobs.every(isReal);
          return {
            index,
            token_ids: isTokens(ids) ? ids : undefined,
            logprobs: fits ? logprobs : undefined,
            finish_reason: sample.text('stop_reason'),
          };
        }),
        prompt_token_ids: isTokens(prompt) ? prompt : undefined,
        response_model: row.id('model_path') ?? row.id('policy_version') ?? row.id('base_model'),
        error: row.any('error'),
        unmapped: row.filledRest(),
      },
      at,
    );
    // All calls of a trajectory begin it in equal words.
    return trace.finish({
      task: null,
      started: { native: { format: NAME, ids: run }, raw: undefined, flags: undefined },
      finished: null,
    });
  },
});
