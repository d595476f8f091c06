/** What clients saw, written outside the system while it happened, and the check of what is there against it. */
import { appendFileSync } from 'node:fs';

/** One request as its client saw it. `unknown`: no answer, or one that says nothing was acknowledged: it may be there or not. */
export type Seen = {
  readonly ids: readonly string[];
  readonly key: string;
  readonly sent: number;
  readonly ended: number;
  readonly outcome: 'ok' | 'unknown';
};

export type Kill = { readonly victim: string; readonly at: number };

export type History = {
  readonly requests: readonly Seen[];
  readonly kills: readonly Kill[];
  /** Notes that a request goes out; the function returned notes how it ended. */
  readonly invoke: (key: string, ids: readonly string[]) => (outcome: Seen['outcome']) => void;
  readonly kill: (victim: string) => void;
};

/** Writes each line to the file before it counts. */
export function openHistory(file: string): History {
  const requests: Seen[] = [];
  const kills: Kill[] = [];
  const write = (line: object): void => appendFileSync(file, `${JSON.stringify(line)}\n`);
  return {
    requests,
    kills,
    invoke: (key, ids) => {
      const sent = performance.now();
      write({ at: sent, invoke: ids });
      return (outcome) => {
        const ended = performance.now();
        write({ at: ended, [outcome]: ids });
        requests.push({ ids, key, sent, ended, outcome });
      };
    },
    kill: (victim) => {
      const at = performance.now();
      write({ at, kill: victim });
      kills.push({ victim, at });
    },
  };
}

export type Found = {
  readonly id: string;
  readonly key: string;
  readonly partition: number;
  readonly position: number;
};

export type Verdict = {
  readonly acknowledged: number;
  readonly unknown: number;
  /** Of those unknown: how many are there. */
  readonly present: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly invented: readonly string[];
  readonly disordered: readonly string[];
  /** Share of the kills at whose moment a request was under way. */
  readonly inFlight: number;
};

/** Every acknowledged event once, every unknown one once or not at all, nothing else; of a key those never in doubt in their order. */
export function check({ requests, kills }: Pick<History, 'requests' | 'kills'>, found: readonly Found[]): Verdict {
  const times = new Map<string, number>();
  for (const { id } of found) times.set(id, (times.get(id) ?? 0) + 1);
  const acknowledged = new Set(requests.filter(({ outcome }) => outcome === 'ok').flatMap(({ ids }) => ids));
  const doubtful = new Set(requests.filter(({ outcome }) => outcome === 'unknown').flatMap(({ ids }) => ids));
  const unknown = [...doubtful].filter((id) => !acknowledged.has(id));
  const place = new Map(found.map((one) => [one.id, one]));
  const last = new Map<string, Found>();
  const disordered: string[] = [];
  for (const { ids, key } of [...requests].sort((a, b) => a.sent - b.sent)) {
    for (const id of ids) {
      const now = place.get(id);
      if (doubtful.has(id) || now === undefined) continue;
      const before = last.get(key);
      if (before && (before.partition !== now.partition || before.position >= now.position)) disordered.push(id);
      last.set(key, now);
    }
  }
  const busy = kills.filter(({ at }) => requests.some(({ sent, ended }) => sent < at && at < ended));
  return {
    acknowledged: acknowledged.size,
    unknown: unknown.length,
    present: unknown.filter((id) => times.has(id)).length,
    lost: [...acknowledged].filter((id) => !times.has(id)),
    doubled: [...times].filter(([, n]) => n > 1).map(([id]) => id),
    invented: [...times.keys()].filter((id) => !acknowledged.has(id) && !doubtful.has(id)),
    disordered,
    inFlight: kills.length === 0 ? 1 : busy.length / kills.length,
  };
}
