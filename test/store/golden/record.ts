/**
 * Records the log that a release keeps: `npx tsx test/store/golden/record.ts VERSION` writes VERSION.jsonl, one envelope a line, every
 * event of the vocabulary in it. What its tables were is kept beside it, as `troupe
 * checksum --json` of that release printed after an import; later releases only read both.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeDraft, encodeEnvelope } from '../../../ingest/events/decode.ts';
import { cutOtlp } from '../../../ingest/formats/traces/live-traces.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { aTrace, request } from '../../ingest/support/spans.ts';
import { aStory, at, event } from '../support/events.ts';

const e = event;
const events = [
  ...aStory(),
  e(
    'team.defined',
    { team_id: 'team-1', name: 'Two solvers', agents: [{ agent_id: 'solver', role: 'solver' }] },
    { id: 'g1', time: at(0) },
  ),
  e('agent.changed', { episode_id: 'e1', agent_id: 'solver', state: 'waiting' }, { id: 'g2', time: at(20) }),
  e(
    'control.transferred',
    { episode_id: 'e1', from_agent: 'solver', to_agent: 'critic', kind: 'handoff' },
    { id: 'g3', time: at(21) },
  ),
  e('decision.made', { episode_id: 'e1', by: 'solver', kind: 'vote', decision: '42' }, { id: 'g4', time: at(22) }),
  e('environment.observed', { episode_id: 'e1', kind: 'state', state: { x: 1 } }, { id: 'g5', time: at(23) }),
  e(
    'artifact.attached',
    { episode_id: 'e1', artifact_id: 'a1', role: 'file', media_type: 'text/plain', sha256: 'a'.repeat(64), size: 1 },
    { id: 'g6', time: at(24) },
  ),
  e('job.requested', { job_id: 'j1', kind: 'train', spec: { steps: 2 } }, { id: 'g7', time: at(30) }),
  e('job.started', { job_id: 'j1', worker: 'w', token: 1 }, { id: 'g8', time: at(31) }),
  e('job.progressed', { job_id: 'j1', step: 1, metrics: { loss: 0.5 } }, { id: 'g9', time: at(32) }),
  e('job.finished', { job_id: 'j1', outcome: 'done', result: { x: 1 }, error: null }, { id: 'g10', time: at(33) }),
  e(
    'checkpoint.saved',
    {
      checkpoint_id: 'k1',
      parent_id: null,
      policy: 'solver',
      uri: '/nowhere',
      sha256: 'b'.repeat(64),
      step: 2,
      dataset_ids: [],
      job_id: 'j1',
      kept: true,
      metrics: {},
      code_version: '0.1.0',
    },
    { id: 'g11', time: at(34) },
  ),
  e(
    'judge.completed',
    { judge_id: 'q1', methods: [{ name: 'grpo_advantage', version: 1, params: {} }], episodes: ['e1'] },
    { id: 'g12', time: at(35) },
  ),
  e(
    'policy.released',
    { release_id: 'r1', policies: { solver: 'k1' }, reason: null, by: 'cli' },
    { id: 'g13', time: at(36) },
  ),
  ...cutOtlp(decodeOtlp(request(aTrace()))).flatMap(({ drafts }) => drafts.map((draft) => decodeDraft(draft).event!)),
];
const lines = events.map((one) => `${JSON.stringify(encodeEnvelope(one))}\n`);
writeFileSync(join(import.meta.dirname, `${process.argv[2]}.jsonl`), lines.join(''));
