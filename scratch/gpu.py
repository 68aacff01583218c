import sys,time; sys.path.insert(0,'benchmarks'); sys.path.insert(0,'src')
import torch, numpy as np
from synthetic import pool
from understudy import Surrogate
torch.backends.cuda.matmul.allow_tf32=False
X,P,y=pool(60000,10)
c=Surrogate(X,10); c.anchor(P,np.arange(600))
basis=(c._kernel.U.numpy(),c._kernel.V.numpy())
g=Surrogate(X,10,device="cuda",basis=basis); g.anchor(P,np.arange(600))
h=Surrogate(X,10,device="cuda",basis=basis); h.anchor(P,np.arange(600))
a=[];b=[]
for i in range(100):
    r=c.ask(); c.tell(r,y[r]); a.append(int(r[0]))
    r=g.ask(); g.tell(r,y[r]); b.append(int(r[0]))
d=h.rehearse(y,100).tolist()
print("cpu=gpu",sum(i==j for i,j in zip(a,b)),"gpu=rehearse",sum(i==j for i,j in zip(b,d)))
print("drift",float(h._engine.drift), "infl diff", np.abs(g.influence-c.influence).max()/c.influence.max())
def ev(f,n=50):
    f(); torch.cuda.synchronize(); ts=[]
    for _ in range(n):
        s=torch.cuda.Event(enable_timing=True);e=torch.cuda.Event(enable_timing=True)
        s.record();f();e.record();torch.cuda.synchronize();ts.append(s.elapsed_time(e))
    return round(float(np.median(ts)),4)
for n in (60000,1281167):
    W=torch.randn(n,500,device="cuda"); v=torch.randn(2,500,device="cuda"); u=torch.rand(n,device="cuda",dtype=torch.float64)
    out=torch.empty(n,2,device="cuda")
    print(n,"sum",ev(lambda:W.sum()),"mv",ev(lambda:W@v[0]),"gemm q2",ev(lambda:W@v.T),"2mv",ev(lambda:(torch.mv(W,v[0]),torch.mv(W,v[1]))),"v@W.T",ev(lambda:v@W.T),"topk8",ev(lambda:u.topk(8)),"argmax",ev(lambda:u.argmax()),"mean",ev(lambda:u.mean()),"f32topk",ev(lambda:u.float().topk(8)), "seg", ev(lambda: u[:n//64*64].view(64,-1).max(1)))
    del W
g=h
eng=g._engine
lab=torch.from_numpy(y).cuda()
graph,rb,ib=eng._record(lab,True)
for _ in range(3): graph.replay()
torch.cuda.synchronize(); t=time.perf_counter()
for _ in range(10): graph.replay()
torch.cuda.synchronize(); print("replay per pick ms",(time.perf_counter()-t)/320*1e3)
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CUDA]) as p:
    graph.replay(); torch.cuda.synchronize()
print(p.key_averages().table(sort_by="cuda_time_total",row_limit=45,max_name_column_width=70))
