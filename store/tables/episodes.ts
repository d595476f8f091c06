import type { EventData } from '../../ingest/events/events.ts';
import { NO_TOKEN_IDS } from '../../ingest/formats/kit/run.ts';
import { textOf, unmapped } from './projection.ts';
import { group, table } from './table.ts';

/** Rows of `openai-chat` hold text alone; their events, whose ids and bodies stand in homes, do not say so. */
const flagsOf = ({ flags, native }: EventData<'episode.started'>): EventData<'episode.started'>['flags'] =>
  native?.form === 'chat-row' && !flags?.includes(NO_TOKEN_IDS) ? [...(flags ?? []), NO_TOKEN_IDS] : flags;

/** None, made of a text (`text/` and 32 hex digits, as importers make it), named. */
const rankOfTask = (id: string | null | undefined): 0 | 1 | 2 =>
  id == null ? 0 : /^text\/[0-9a-f]{32}$/.test(id) ? 1 : 2;

export const episodes = table('episodes', 'Attempts of a team at a task.', {
  keys: { episode_id: 'text' },
  groups: [
    group('episode.started', {
      version: 'started_version',
      columns: {
        attempt: 'integer',
        started_group_id: ['text', 'group_id'],
        group_size: 'integer',
        session_id: 'text',
        team_id: 'text',
        env_id: 'text',
        parent_episode_id: 'text',
        policies: 'jsonb',
        budgets: 'json',
        tags: 'jsonb',
        flags: ['jsonb', flagsOf],
        unmapped: ['json', unmapped],
        raw_artifact_id: ['text', ({ raw }) => raw?.artifact_id],
        started_at: ['timestamptz', 'event.time'],
      },
    }),
    // The task apart from the rest: one that was named beats one made of its text, whichever comes last.
    group('episode.started', {
      version: ['task_version', ({ task_id }, { version }) => `${rankOfTask(task_id)} ${version}`],
      columns: { started_task_id: ['text', 'task_id'] },
    }),
    group('episode.finished', {
      version: 'finished_version',
      columns: {
        outcome: 'text',
        answer: ['text', ({ answer, final }) => answer ?? textOf(final)],
        final: 'json',
        stop_reason: 'text',
        exit_status: 'text',
        totals: 'json',
        finished_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
  also: {
    task_id: ['text', 'the task that its start names, else the one that its calls name'],
    group_id: ['text', 'the group that its start names, else the one that its calls name'],
    reward: ['double precision', 'the last reward for the episode, null if none'],
    agents: ['integer', 'how many members it has'],
    calls: ['integer', 'how many model calls'],
    steps: ['integer', 'how many candidate outputs'],
    tool_calls: ['integer', 'how many tool calls'],
    messages: ['integer', 'how many messages'],
    feedback: ['integer', 'how many pieces of feedback'],
    input_tokens: ['bigint', 'what its calls read, without copied calls'],
    output_tokens: ['bigint', 'what its calls wrote, without copied calls'],
    closed: ['boolean', 'whether it ended and nothing came later'],
    last_at: ['timestamptz', 'when the last thing in it happened'],
    revision: ['bigint', 'grows with every change of the episode; no place in the log'],
    spoke_policies: ['text[]', 'the policies that answered its calls'],
    spoke_checkpoints: ['text[]', 'the checkpoints that answered its calls'],
    spoke_weights: ['text[]', 'of each call its checkpoint, else the model that answered, else the model asked for'],
  },
});
