/** A log, a book and an artifact store in memory that keep the promises of the ports, to look at what an import brings. */
import type { Event } from '../../../ingest/events/events.ts';
import { sha256 } from '../../../ingest/events/json.ts';
import type {
  ArtifactStore,
  DeadLetter,
  EventLog,
  IngestLedger,
  IngestReport,
  Originals,
} from '../../../ingest/log/log.ts';

export type MemoryLog = {
  readonly log: EventLog;
  readonly book: IngestLedger;
  readonly artifacts: ArtifactStore;
  readonly originals: Originals;
  /** Accepted events, in the order of their acceptance. */
  readonly events: Event[];
  readonly reports: IngestReport[];
  readonly letters: () => DeadLetter[];
  readonly bodies: Map<string, Buffer>;
  readonly appends: number[];
};

export function memoryLog(): MemoryLog {
  const known = new Map<string, string>();
  const events: Event[] = [];
  const reports: IngestReport[] = [];
  const bodies = new Map<string, Buffer>();
  const appends: number[] = [];
  return {
    events,
    reports,
    bodies,
    appends,
    letters: () => reports.flatMap((report) => report.rejected),
    log: {
      name: 'memory',
      append: async (batch) => {
        appends.push(batch.length);
        return batch.map((event) => {
          const raw = (event.data as { raw?: { artifact_id?: string } }).raw?.artifact_id;
          if (raw !== undefined && !bodies.has(raw)) throw new Error(`${event.name} came before its artifact ${raw}`);
          const identity = `${event.key}\n${event.source}\n${event.id}`;
          const before = known.get(identity);
          if (before !== undefined) return before === event.digest ? 'duplicate' : 'conflict';
          known.set(identity, event.digest);
          events.push(event);
          return 'accepted';
        });
      },
      close: async () => {},
    },
    originals: {
      begun: async (episodes) => {
        const found = new Map<string, string[]>();
        for (const { name, source, data } of events) {
          const { episode_id: episode } = data as unknown as { episode_id: string };
          if (name === 'episode.started' && source.startsWith('/import/') && episodes.includes(episode))
            found.set(episode, [...(found.get(episode) ?? []), source]);
        }
        return found;
      },
      records: async (episodes, source) => {
        const found = new Map<string, string[]>();
        for (const { name, source: by, data } of events) {
          const { role, episode_id: episode, sha256: body } = data as unknown as Record<string, string>;
          if (name === 'artifact.attached' && role === 'raw-record' && by === source && episodes.includes(episode!))
            found.set(episode!, [...(found.get(episode!) ?? []), body!]);
        }
        return found;
      },
      answered: async (responses) => {
        const found = new Map<string, string[]>();
        for (const { name, data } of events) {
          const { response_id: response, episode_id: episode } = data as unknown as Record<string, string>;
          if (name === 'generation.completed' && responses.includes(response!))
            found.set(response!, [...(found.get(response!) ?? []), episode!]);
        }
        return found;
      },
      rejected: async (keys, source) =>
        new Set(
          events.flatMap(({ name, key, source: by, data }) => {
            const { op, target } = data as unknown as { op?: string; target: { id: string } };
            const isOne = name === 'record.amended' && op === 'reject' && by === source && keys.includes(key);
            return isOne ? [target.id] : [];
          }),
        ),
      held: async (keys, source, ids) =>
        new Set(
          events.flatMap(({ key, source: by, id }) =>
            by === source && keys.includes(key) && ids.includes(id) ? [id] : [],
          ),
        ),
    },
    book: {
      report: async (report) => {
        reports.push(report);
      },
    },
    artifacts: {
      put: async (put) =>
        put.map((body) => {
          const bytes = Buffer.from(body);
          bodies.set(sha256(bytes), bytes);
          return { sha256: sha256(bytes), size: bytes.length };
        }),
      get: async (name) => {
        const body = bodies.get(name);
        if (!body) throw new Error(`no body ${name}`);
        return body;
      },
      remove: async (name) => bodies.delete(name),
    },
  };
}

export function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}
