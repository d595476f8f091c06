/** An episode as people read it: what was said and done in order, then what was said about it. */
import { paint, table } from './output.ts';

type Row = Readonly<Record<string, unknown>>;

export type EpisodeFacts = {
  readonly episode: Row;
  readonly steps: readonly Row[];
  readonly tool_calls: readonly Row[];
  /** Sent between members, users and environment. */
  readonly messages: readonly Row[];
  /** What stood in the context of calls, each body once, at its first place. */
  readonly context: readonly Row[];
  readonly feedback: readonly Row[];
  readonly credits: readonly Row[];
  readonly verdicts: readonly Row[];
};

/** Characters of one text that are shown unless all is asked for. */
const SHOWN = 1200;

type Said = {
  readonly seq: number;
  readonly at: number;
  /** Among things of one moment: context, message, answer, tool. */
  readonly rank: number;
  readonly who: string;
  readonly note: string;
  readonly text: string;
};

export function conversation(facts: EpisodeFacts, { full = false } = {}): string {
  const { episode, feedback, credits, verdicts } = facts;
  const about = ['task_id', 'outcome', 'reward', 'agents', 'steps', 'started_at']
    .filter((name) => episode[name] !== null && episode[name] !== undefined)
    .map((name) => `${name.replace(/_id$|_at$/, '')} ${plain(episode[name])}`);
  const parts = [
    `${paint.bold(`Episode ${episode.episode_id}`)}${about.length > 0 ? ` · ${about.join(' · ')}` : ''}`,
    ...inOrder(facts).map((said) => block(said, full)),
  ];
  if (feedback.length > 0) {
    parts.push(
      table(
        ['feedback', 'about', 'value', 'why'],
        feedback.map((f) => [
          f.name ?? f.kind,
          `${plain(f.target_id ?? f.target_kind)}${f.no_such_step === true ? ' (no such step)' : ''}`,
          f.value ?? f.label,
          f.explanation,
        ]),
      ),
    );
  }
  if (verdicts.length > 0) {
    parts.push(
      table(
        ['verdict of', 'step', 'says', 'why'],
        verdicts.map((v) => [v.method, v.step_id, v.keep ? 'keep' : 'drop', v.reason]),
      ),
    );
  }
  if (credits.length > 0) {
    parts.push(
      table(
        ['credit by', 'step', 'value', 'why'],
        credits.map((c) => [c.method, c.step_id, c.value, c.reason]),
      ),
    );
  }
  return parts.join('\n\n');
}

function inOrder({ steps, tool_calls, messages, context }: EpisodeFacts): Said[] {
  const told = new Set(
    [...steps, ...messages].map((row) => plain(row.text)).concat(tool_calls.map((t) => plain(t.output))),
  );
  const said: Said[] = [
    ...context
      .filter((m) => !told.has(plain(m.text)))
      .map((m) => entry(m, 0, m.sender ?? m.role, m.sender ? `${plain(m.role)}, context` : 'context', plain(m.text))),
    ...messages.map((m) => entry(m, 1, m.sender ?? m.role, m.channel ? `to ${plain(m.channel)}` : '', plain(m.text))),
    ...steps.map((s) =>
      entry(
        s,
        2,
        s.agent,
        notes(s.role === s.agent ? null : s.role, s.step_id, s.chosen === false ? 'not chosen' : null),
        plain(s.text),
      ),
    ),
    ...tool_calls.map((t) =>
      entry(
        t,
        3,
        `tool ${plain(t.name)}`,
        notes(t.status ?? 'no result'),
        [plain(t.arguments), plain(t.output)].filter(Boolean).join('\n→ '),
      ),
    ),
  ];
  return said.sort((a, b) => order(a.seq, b.seq) || order(a.at, b.at) || a.rank - b.rank);
}

/** Two that are both unknown are infinite, and their difference is not a number. */
const order = (a: number, b: number): number => (a === b ? 0 : a - b);

const entry = (row: Row, rank: number, who: unknown, note: string, text: string): Said => ({
  seq: typeof row.seq === 'number' ? row.seq : Number.POSITIVE_INFINITY,
  at:
    row.at instanceof Date
      ? row.at.getTime()
      : typeof row.at === 'string'
        ? Date.parse(row.at)
        : Number.POSITIVE_INFINITY,
  rank,
  who: plain(who) || 'somebody',
  note,
  text,
});

const notes = (...all: readonly unknown[]): string =>
  all
    .filter((one) => one !== null && one !== undefined)
    .map(plain)
    .join(' · ');

function block({ who, note, text }: Said, full: boolean): string {
  const all = Array.from(text);
  const cut = full || all.length <= SHOWN ? '' : `\n… ${all.length - SHOWN} more characters (--full)`;
  const body = `${cut ? all.slice(0, SHOWN).join('') : text}${cut}`;
  // Terminals obey control characters; what an agent said must not steer one.
  const safe = body.replaceAll(/[^\P{Cc}\n\t]/gu, '�');
  return `${paint.cyan(who)}${note ? paint.dim(` · ${note}`) : ''}\n${safe.replaceAll(/^/gm, '  ')}`;
}

function plain(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'string' ? value : JSON.stringify(value);
}
