import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { dialog } from "./state.ts";

/** A window over the page: the browser keeps the focus inside and gives it back. */
export function Dialog({ title, testid, children }: { title: string; testid?: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  const close = () => (dialog.value = null);
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-label={title}
      data-testid={testid}
      onCancel={(event) => {
        event.preventDefault(); // closed by us, at once: the next key already belongs to the page
        close();
      }}
      onClose={() => ref.current?.isConnected && close()}
      onClick={(event) => event.target === ref.current && close()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
